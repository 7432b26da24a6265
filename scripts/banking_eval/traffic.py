"""A log of support conversations, drawn from banking77's questions: there is no public one with its repeats.

What it assumes, and why, stands beside each number; the hit rates of a cache follow from these and from nothing else.
"""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

# What people add once they have an answer; short ones lean on the question before them.
FOLLOW_UPS = (
    "How long does that take?",
    "And if that does not work?",
    "Is there a fee for it?",
    "Thanks!",
    "Can I do that in the app?",
    "Why did this happen?",
    "What about my other card?",
    "Ok, and where do I find that?",
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """How people ask."""

    intents: float = 1.0  # exponent of Zipf's law over the 77 things that are asked: few make up most of the traffic
    wordings: float = 1.0  # the same over the wordings of one thing: suggested questions and short phrases recur
    another: float = 0.45  # chance that a conversation goes on after each answer
    follow_up: float = 0.5  # chance that it then asks back instead of asking for something else
    tool_round: float = 0.4  # chance that the client sends the turn again with the result of a tool of its own
    again: float = 0.03  # chance that an answer is asked for once more (regenerated, a retry after a broken line)
    together: int = 20  # conversations under way at any time


SUPPORT = Traffic()
# The same people without what repeats a turn by itself: only wordings that recur are left.
WORDINGS_ONLY = Traffic(tool_round=0.0, again=0.0)


def compute_zipf_weights(count: int, exponent: float) -> list[float]:
    return [1 / rank**exponent for rank in range(1, count + 1)]


def draw_questions(rows: Sequence[tuple[str, str]], traffic: Traffic, seed: int) -> Iterator[str]:
    """Questions without end: what is asked by Zipf's law, and how it is put by the same law."""
    draw = random.Random(seed)
    known: dict[str, list[str]] = defaultdict(list)
    for text, intent in rows:
        known[intent].append(" ".join(text.split()))
    intents = draw.sample(sorted(known), len(known))
    wordings = {intent: draw.sample(texts, len(texts)) for intent, texts in sorted(known.items())}
    often = list(itertools.accumulate(compute_zipf_weights(len(intents), traffic.intents)))
    put = {
        intent: list(itertools.accumulate(compute_zipf_weights(len(texts), traffic.wordings)))
        for intent, texts in wordings.items()
    }
    while True:
        (intent,) = draw.choices(intents, cum_weights=often)
        yield draw.choices(wordings[intent], cum_weights=put[intent])[0]


def draw_conversation(questions: Iterator[str], traffic: Traffic, draw: random.Random) -> Iterator[list[Message]]:
    """The messages of every request of one conversation."""
    messages: list[Message] = []
    question = next(questions)
    while True:
        messages.append({"role": "user", "content": question})
        yield list(messages)
        while draw.random() < traffic.tool_round:
            messages += make_tool_round(len(messages))
            yield list(messages)
        if draw.random() < traffic.again:
            yield list(messages)
        messages.append({"role": "assistant", "content": f"Here is what I know about it ({len(messages)})."})
        if draw.random() >= traffic.another:
            return
        question = draw.choice(FOLLOW_UPS) if draw.random() < traffic.follow_up else next(questions)


def make_tool_round(number: int) -> list[Message]:
    """A call of a tool that the client runs, and its result."""
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "Found."},
    ]


def draw_log(rows: Sequence[tuple[str, str]], traffic: Traffic, seed: int, count: int) -> Iterator[list[Message]]:
    """The requests of so many conversations, several of them under way at any time."""
    draw, questions = random.Random(seed), draw_questions(rows, traffic, seed)
    waiting = (draw_conversation(questions, traffic, draw) for _ in range(count))
    running = list(itertools.islice(waiting, traffic.together))
    while running:
        place = draw.randrange(len(running))
        request = next(running[place], None)
        if request is not None:
            yield request
            continue
        following = next(waiting, None)
        if following is None:
            del running[place]
        else:
            running[place] = following
