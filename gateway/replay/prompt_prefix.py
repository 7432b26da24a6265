"""How much of a prompt begins like the one before: what a provider's prompt cache can reuse."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import orjson

TEXT_PARTS = ("text", "input_text", "output_text")

TokenCount = Callable[[str], int]


class PromptUse(msgspec.Struct, frozen=True):
    """The tokens of one prompt and of its predecessor, and how many they have in common at the beginning."""

    tokens: int
    reusable: int  # of the prompt before: a provider cannot reuse more
    prefix: int


def list_segments(body: Mapping[str, Any]) -> list[str]:
    """A request in the order in which models read it: the tools, then each message."""
    tools = body.get("tools")
    head = [orjson.dumps(tools).decode()] if tools else []
    return head + [format_message(message) for message in list_entries(body)]


def list_entries(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Whatever a request says, in any dialect, as messages: instructions that have a field of their own first."""
    instructions = body.get("instructions") or body.get("system")
    head: list[Mapping[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    said = body.get("messages") or body.get("input") or ()
    return [*head, {"role": "user", "content": said}] if isinstance(said, str) else [*head, *said]


def format_message(message: Mapping[str, Any]) -> str:
    """A message as a model reads it, more or less; whether its text is a string or a part makes no difference."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    texts = [format_part(part) for part in (*parts, rest) if part]
    return "\n".join([str(message.get("role")), *texts])


def format_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) and part.get("type") in TEXT_PARTS else None
    return text if isinstance(text, str) else orjson.dumps(part).decode()


def measure_prompts(bodies: Sequence[Mapping[str, Any]], count: TokenCount) -> list[PromptUse]:
    """Every prompt after the first, compared with the one before it."""
    known: dict[str, int] = {}

    def count_once(segment: str) -> int:
        tokens = known.get(segment)
        if tokens is None:
            tokens = known[segment] = count(segment)
        return tokens

    prompts = [list_segments(body) for body in bodies]
    totals = [sum(map(count_once, prompt)) for prompt in prompts]
    return [
        PromptUse(totals[place], totals[place - 1], count_prefix(prompts[place - 1], prompts[place], count_once))
        for place in range(1, len(prompts))
    ]


def count_prefix(before: Sequence[str], after: Sequence[str], count: TokenCount) -> int:
    """The tokens that two prompts have in common at the beginning."""
    tokens = 0
    for former, current in zip(before, after, strict=False):
        if former != current:
            return tokens + count(find_common_prefix(former, current))
        tokens += count(current)
    return tokens


def find_common_prefix(one: str, other: str) -> str:
    end = next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    return one[:end] if end is not None else min(one, other, key=len)
