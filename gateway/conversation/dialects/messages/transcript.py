"""The turns of an exchange as messages: what goes back upstream after each of them."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.hidden_turn import OwnResult
from gateway.conversation.turn import LoopPlan, Turn

NO_TOOLS = {"type": "none"}

_encode = msgspec.json.Encoder().encode
_decode_message: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list: Callable[[Raw], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode


class _BlockKind(msgspec.Struct):
    type: str | None = None


_decode_kind = msgspec.json.Decoder(_BlockKind).decode


def encode_turn(plan: LoopPlan, added: Sequence[bytes], *, is_last: bool) -> bytes:
    """The body of a turn; in the last one the model cannot call our tools."""
    body = dict(plan.fields)
    body["messages"] = [*plan.messages, *map(Raw, added)]
    if is_last and plan.client_tools:
        body["tools"] = plan.client_tools
    else:
        body["tools"] = plan.client_tools + plan.own_tools
    if is_last and not plan.client_tools:
        body["tool_choice"] = NO_TOOLS
    elif plan.tool_choice is not None:
        body["tool_choice"] = plan.tool_choice
    return _encode(body)


def write_turn(turn: Turn, results: Sequence[OwnResult]) -> list[bytes]:
    """The assistant's message, and the user's with the results of our calls."""
    blocks = [write_result(turn.calls[one.position].call.id, one.text or "") for one in results]
    return [turn.message, _encode({"role": "user", "content": blocks})]


def write_result(identity: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, "content": text}


def is_call(block: Raw) -> bool:
    return _decode_kind(block).type == "tool_use"


def remove_own_calls(turn: Turn) -> bytes:
    """The assistant's message without calls of ours that were not run: no result would follow them."""
    message = _decode_message(turn.message)
    calls = iter(turn.calls)
    kept = [block for block in _decode_list(message["content"]) if not is_call(block) or not next(calls).own]
    return _encode({**message, "content": kept})
