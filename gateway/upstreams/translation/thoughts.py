"""Anthropic's thinking blocks in a chat message, so that they go back exactly as they came.

A chat message has its text, its calls and its thoughts apart from each other. `thinking_blocks` holds the blocks with
their signatures; where one stood behind text or calls, its `offset` says behind how many characters and calls.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

THINKING: Final = "thinking"
REDACTED: Final = "redacted_thinking"
THOUGHT_KINDS: Final = (THINKING, REDACTED)
SEALED: Final = "blocks:"  # begins the encrypted content of a reasoning item that holds signed thinking blocks
# What stands for a signature where a chat upstream told its thoughts in one of these fields of a message.
FIELD_SIGNATURES: Final = {"reasoning_content": "chat:reasoning_content", "reasoning": "chat:reasoning"}


class ThoughtOffset(NamedTuple):
    """Where a thought stands in its message: behind so many characters of text and so many calls."""

    text: int = 0
    calls: int = 0


def read_offset(thought: dict[str, Any]) -> ThoughtOffset:
    match thought.get("offset"):
        case [int(text), int(calls)] if text >= 0 and calls >= 0:
            return ThoughtOffset(text, calls)
    return ThoughtOffset()


def mark_offset(thought: dict[str, Any], offset: ThoughtOffset) -> dict[str, Any]:
    """The thought with its place, which needs no word at the start of a message."""
    return {**thought, "offset": list(offset)} if any(offset) else thought


def find_signed_field(signature: Any) -> str | None:
    """The field of a chat message whose text a thinking block carries."""
    return next((name for name, mark in FIELD_SIGNATURES.items() if mark == signature), None)


def pack_thoughts(thoughts: Sequence[dict[str, Any]]) -> str:
    """Signed thinking blocks as the encrypted content of a reasoning item."""
    return SEALED + base64.b64encode(msgspec.json.encode(thoughts)).decode()


def unpack_thoughts(sealed: str | None) -> list[dict[str, Any]]:
    """The blocks of such an item; none if it is another model's."""
    if sealed is None or not sealed.startswith(SEALED):
        return []
    try:
        packed = base64.b64decode(sealed.removeprefix(SEALED), validate=True)
        return msgspec.json.decode(packed, type=list[dict[str, Any]])
    except (binascii.Error, ValueError, RecursionError):
        return []
