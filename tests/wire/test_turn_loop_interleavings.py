"""Conversations of several users, keys and sessions through one gateway, whose calls all have the same ids.

The model marks its calls of our tools with the conversation that it is in. Every upstream request must have all marks
of its own conversation and none of another, in whatever way the client writes its history. Mutants show that the test
would notice a turn that went astray.
"""

import hashlib
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.history_hash import HistoryHash
from tests.support.gateway import NAMES, STYLE, WEATHER, Client, ClientReply, Start, Thread
from tests.support.upstream import Upstream, mixed, say, tool_call

Message = dict[str, Any]
KEYS = [
    {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "rights": ["act_as_user"]}
    for name in ("one", "two")
]
MARK = re.compile(r"mark-(\d+)-(\d+)")
QUESTIONS = ("Tidy this", "What about that?")
CITIES = ("Oslo", "Rome")
OWNERS = {"principal": ["one", "two"], "user": ["ann", "ben"], "session": ["", "s"], "question": [*QUESTIONS]}


@dataclass
class Step:
    """What a client saw of one exchange, and what it answered."""

    text: str
    calls: list[Message] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    question: str = ""  # after an answer


@dataclass
class Talk:
    """One conversation as its client keeps it."""

    number: int
    key: str
    user: str
    session: str
    write: Callable[["Talk"], list[Message]]
    steps: list[Step]
    marks: set[str] = field(default_factory=set)
    drawn: int = 0

    def draw_mark(self) -> str:
        self.drawn += 1
        return f"mark-{self.number}-{self.drawn}"


def write_plainly(talk: Talk) -> list[Message]:
    return [message for step in talk.steps for message in write_step(step)]


def write_step(step: Step, rename: str = "") -> list[Message]:
    messages: list[Message] = []
    if step.text or step.calls:
        calls = [{**call, "id": rename + call["id"]} for call in step.calls]
        messages.append({"role": "assistant", "content": step.text or None} | ({"tool_calls": calls} if calls else {}))
    for call, result in zip(step.calls, step.results, strict=True):
        messages.append({"role": "tool", "tool_call_id": rename + call["id"], "content": result})
    return [*messages, {"role": "user", "content": step.question}] if step.question else messages


def write_like_a_library(talk: Talk) -> list[Message]:
    """Other spaces, text parts, no null; a system message that tells the time; results in another order."""
    messages: list[Message] = [{"role": "system", "content": f"It is {len(talk.steps)} o'clock."}]
    for step in talk.steps:
        written = write_step(step)
        results = [message for message in written if message["role"] == "tool"]
        for message in written:
            one = results.pop() if message["role"] == "tool" else {**message, "content": message["content"] or ""}
            if one["role"] == "user":
                one["content"] = [{"type": "text", "text": one["content"]}]
            if "tool_calls" in one:
                one["tool_calls"] = [rewrite_arguments(call) for call in one["tool_calls"]]
            messages.append(one)
    return messages


def rewrite_arguments(call: Message) -> Message:
    arguments = orjson.loads(call["function"]["arguments"])
    return {
        **call,
        "function": {**call["function"], "arguments": orjson.dumps(arguments, option=orjson.OPT_INDENT_2).decode()},
    }


def write_with_ids_of_its_own(talk: Talk) -> list[Message]:
    return [message for at, step in enumerate(talk.steps) for message in write_step(step, rename=f"mine_{at}_")]


def write_one_call_each(talk: Talk) -> list[Message]:
    messages: list[Message] = []
    for step in talk.steps:
        if len(step.calls) > 1:
            messages.append({"role": "assistant", "content": step.text or "-"})
            for call, result in zip(step.calls, step.results, strict=True):
                messages += write_step(Step("", [call], [result]))
        else:
            messages += write_step(step)
    return messages


def write_redacted(talk: Talk) -> list[Message]:
    return [message for step in talk.steps for message in write_step(redact(step))]


def redact(step: Step) -> Step:
    return Step("[redacted]" if step.text and step.calls else step.text, step.calls, step.results, step.question)


WAYS = [write_plainly, write_like_a_library, write_with_ids_of_its_own, write_one_call_each, write_redacted]


class Talks(RuleBasedStateMachine):
    """Begins and continues conversations; `client`, `upstream` and `thread` are set by the test."""

    client: Client
    upstream: Upstream
    thread: Thread
    owners = OWNERS
    run = 0  # of the machine: users and sessions of one run are not those of another

    def __init__(self) -> None:
        super().__init__()
        Talks.run += 1
        self.talks: list[Talk] = []
        self.upstream.reset()

    @rule(pick=st.randoms(use_true_random=False), write=st.sampled_from(WAYS))
    def begin(self, pick: Any, write: Callable[[Talk], list[Message]]) -> None:
        key, user, session, question = (pick.choice(choices) for choices in self.owners.values())
        talk = Talk(len(self.talks), key, f"{user}-{self.run}", session, write, [Step("", question=question)])
        known = [(one.key, one.user, one.session, one.steps[0].question) for one in self.talks]
        if (key, talk.user, session, question) not in known:  # nothing would tell them apart
            self.talks.append(talk)

    @precondition(lambda self: self.talks)
    @rule(pick=st.randoms(use_true_random=False), kind=st.sampled_from(["mixed", "first ours", "theirs", "answer"]))
    def go_on(self, pick: Any, kind: str) -> None:
        talk = pick.choice(self.talks)
        calls = [
            tool_call("get_weather", f"call_{1 + at}", city=pick.choice(CITIES)) for at in range(pick.choice([1, 2]))
        ]
        marks = [talk.draw_mark()]
        own = tool_call("get_context_resource", "call_0", resource_id=pick.choice([STYLE, NAMES]), query=marks[0])
        text = pick.choice(["", "Let me see."])
        script = {
            "mixed": [mixed(own, *calls, text=text or None)],
            "first ours": [mixed(own, text=text or None), mixed(*calls)],
            "theirs": [mixed(*calls, text=text or None)],
            "answer": [say("So it is.")],
        }[kind]
        self.upstream.will(*script)
        reply = self._ask(talk, stream=pick.choice([False, True]))
        if kind == "answer":
            talk.steps.append(Step(reply.text, question=pick.choice(QUESTIONS)))
            return
        seen = reply.message["tool_calls"]
        talk.steps.append(Step(reply.text, seen, [pick.choice(["rain", "sun"]) for _ in seen]))
        talk.marks |= set(marks) if kind != "theirs" else set()

    def _ask(self, talk: Talk, stream: bool) -> ClientReply:
        before = len(self.upstream.seen)
        messages = talk.write(talk)
        context = {"user": talk.user} | ({"session": talk.session} if talk.session else {})
        said = {"agent": "editor", "key": talk.key, "context": context, "tools": [WEATHER], "stream": stream}
        reply: ClientReply = self.thread.run(self.client.chat(messages, **said))
        assert reply.status == 200
        first = self.upstream.seen[before]
        found = {match[0] for match in MARK.finditer(first.body.decode())}
        assert found == talk.marks, f"{sorted(found)} instead of {sorted(talk.marks)}"
        check_order(first.json["messages"])
        check_client_part(first.json["messages"], messages)
        return reply


def check_order(messages: list[Message]) -> None:
    """Every call is answered right after the message that makes it, and nothing else is."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
        else:
            assert open_calls == []
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
    assert open_calls == []


def check_client_part(sent: list[Message], written: list[Message]) -> None:
    """The client's results stand under the ids that it gave them; none of its texts is missing."""

    def list_results(messages: list[Message]) -> list[tuple[str, str]]:
        found = [(one["tool_call_id"], one["content"]) for one in messages if one["role"] == "tool"]
        return sorted(pair for pair in found if pair[1] in ("rain", "sun"))

    assert list_results(sent) == list_results(written)
    texts = [str(message.get("content")) for message in sent]
    assert sum("[redacted]" in text for text in texts) == sum(
        "[redacted]" in str(one.get("content")) for one in written
    )
    assert ("Let me see." in texts) <= ("Let me see." in [one.get("content") for one in written])


@pytest.fixture
def talks(thread: Thread, start: Start, upstream: Upstream) -> type[Talks]:
    Talks.client, Talks.upstream, Talks.thread = start(auth={"keys": KEYS}), upstream, thread
    Talks.owners = OWNERS
    return Talks


def differ_only_in(name: str) -> dict[str, list[str]]:
    return {one: choices if one == name else choices[:1] for one, choices in OWNERS.items()}


def test_every_request_has_the_hidden_turns_of_its_own_conversation(talks: type[Talks]):
    run_state_machine_as_test(talks, settings=settings(max_examples=25, stateful_step_count=40))


class NoHistory(HistoryHash):
    """A mutant: whatever was said before is the same."""

    def add_message(self, message: Any) -> None: ...

    def add_call(self, call: Any) -> None:
        self._spoken.clear()


@contextmanager
def nobody_in_particular(patch: pytest.MonkeyPatch, *names: str) -> Any:
    """A mutant: some parts of the owner do not count."""
    encode = ConversationOwner.encode

    def blurred(owner: ConversationOwner) -> bytes:
        parts = {name: "" if name in names else getattr(owner, name) for name in owner.__struct_fields__}
        return encode(ConversationOwner(**parts))

    with patch.context() as inner:
        inner.setattr(ConversationOwner, "encode", blurred)
        yield


MUTANT_RUN = settings(max_examples=60, stateful_step_count=40, phases=[Phase.generate], derandomize=True, database=None)


@pytest.mark.parametrize("name", ["user", "principal", "session"])
def test_a_key_without_its_owner_is_noticed(talks: type[Talks], monkeypatch: pytest.MonkeyPatch, name: str):
    talks.owners = differ_only_in(name)
    with nobody_in_particular(monkeypatch, name), pytest.raises(AssertionError, match="instead of"):
        run_state_machine_as_test(talks, settings=MUTANT_RUN)
    Talks.upstream.reset()


def test_a_key_without_the_history_is_noticed(talks: type[Talks], monkeypatch: pytest.MonkeyPatch):
    talks.owners = differ_only_in("question")
    monkeypatch.setattr("gateway.conversation.history_hash.HistoryHash", NoHistory)
    with pytest.raises(AssertionError, match="instead of"):
        run_state_machine_as_test(talks, settings=MUTANT_RUN)
    Talks.upstream.reset()
