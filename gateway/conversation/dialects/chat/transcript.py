"""The turns of an exchange as chat messages: what goes back upstream after each of them."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.hidden_turn import OwnResult
from gateway.conversation.turn import LoopPlan, Turn

_encode = msgspec.json.Encoder().encode
_decode_message: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list: Callable[[Raw], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode


def encode_turn(plan: LoopPlan, added: Sequence[bytes], *, is_last: bool) -> bytes:
    """The body of a turn; in the last one the model cannot call our tools."""
    body = dict(plan.fields)
    body["messages"] = [*plan.messages, *map(Raw, added)]
    if is_last and plan.client_tools:
        body["tools"] = plan.client_tools
    else:
        body["tools"] = plan.client_tools + plan.own_tools
    if is_last and not plan.client_tools:
        body["tool_choice"] = "none"
    elif plan.tool_choice is not None:
        body["tool_choice"] = plan.tool_choice
    if plan.forces_usage:
        body["stream_options"] = request_usage(plan.fields.get("stream_options"))
    return _encode(body)


def request_usage(options: Any) -> dict[str, Any]:
    """The client's stream_options, asking for a usage chunk."""
    known = msgspec.json.decode(options) if isinstance(options, Raw) else options
    return {**(known if isinstance(known, dict) else {}), "include_usage": True}


def write_turn(turn: Turn, results: Sequence[OwnResult]) -> list[bytes]:
    """The assistant's message and the results of our calls."""
    return [
        turn.message,
        *(
            _encode({"role": "tool", "tool_call_id": turn.calls[one.position].call.id, "content": one.text})
            for one in results
        ),
    ]


def remove_own_calls(turn: Turn) -> bytes:
    """The assistant's message without calls of ours that were not run: no result would follow them."""
    message = _decode_message(turn.message)
    calls = _decode_list(message["tool_calls"])
    message["tool_calls"] = [raw for raw, call in zip(calls, turn.calls, strict=True) if not call.own]
    return _encode(message)
