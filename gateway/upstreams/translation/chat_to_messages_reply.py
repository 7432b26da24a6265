"""A whole chat completion as a reply of Anthropic's Messages."""

from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.errors import UpstreamInvalid
from gateway.upstreams.translation.carried_fields import UNREADABLE, encode
from gateway.upstreams.translation.chat_completion import (
    ChatCall,
    ChatChoice,
    ChatMessage,
    decode_completion,
    iterate_thoughts,
    read_arguments,
)
from gateway.upstreams.translation.thoughts import FIELD_SIGNATURES
from gateway.upstreams.translation.usage import to_messages_usage

STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
CUT_SHORT: Final = ("length", "content_filter")  # the model did not finish what it was saying

Block = dict[str, Any]


def build_message_reply(body: bytes) -> bytes:
    """The message of a whole reply; raises UpstreamInvalid if it is none or cannot be carried."""
    document = decode_completion(body)
    assert document.choices
    choice = document.choices[0]
    assert choice.message
    reply: dict[str, Any] = {
        "id": document.id or "",
        "type": "message",
        "role": "assistant",
        "model": document.model or "",
        "content": build_blocks(choice.message, cut_short=choice.finish_reason in CUT_SHORT),
        **build_stop(choice, has_calls=bool(choice.message.tool_calls), has_refusal=bool(choice.message.refusal)),
        "usage": to_messages_usage(document.usage),
    }
    return encode(reply)


def build_stop(choice: ChatChoice, *, has_calls: bool, has_refusal: bool) -> dict[str, Any]:
    """Why the model stopped; calls and refusals count more than the word that a provider has for them."""
    if isinstance(choice.stop_reason, str) and choice.finish_reason == "stop" and not has_calls:
        return {"stop_reason": "stop_sequence", "stop_sequence": choice.stop_reason}
    reason = choice.finish_reason
    if reason == "stop" and (has_calls or has_refusal):
        reason = "tool_calls" if has_calls else "content_filter"
    return {"stop_reason": STOP_REASONS.get(reason, reason) if reason else None, "stop_sequence": None}


def build_blocks(message: ChatMessage, *, cut_short: bool) -> list[Block]:
    blocks: list[Block] = list(iterate_thoughts(message))
    if not blocks and (told := message.find_thought()) is not None:
        blocks.append({"type": "thinking", "thinking": told.text, "signature": FIELD_SIGNATURES[told.field]})
    said = message.text + (message.refusal or "")
    if said:
        blocks.append({"type": "text", "text": said})
    for position, call in enumerate(message.tool_calls or ()):
        block = build_tool_use(call, position)
        if block is not None:
            blocks.append(block)
        elif not cut_short:
            raise UpstreamInvalid("The upstream called a tool with arguments that are not a JSON object.")
    return blocks


def build_tool_use(call: ChatCall, position: int) -> Block | None:
    """The block of a call; None if its arguments are no object, as when the model was cut short."""
    arguments = read_arguments(call).strip() or "{}"
    try:
        msgspec.json.decode(arguments, type=dict[str, Raw])
    except UNREADABLE:
        return None
    identity = call.id or f"call_{position}"
    return {"type": "tool_use", "id": identity, "name": call.name, "input": Raw(arguments.encode())}
