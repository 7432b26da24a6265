"""A whole reply of Anthropic's Messages as a chat completion."""

from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.errors import UpstreamInvalid
from gateway.upstreams.translation.carried_fields import UNREADABLE, encode
from gateway.upstreams.translation.thoughts import THINKING, THOUGHT_KINDS, ThoughtOffset, mark_offset
from gateway.upstreams.translation.usage import to_chat_usage

FINISH_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
NO_ANSWER: Final = "The upstream's reply is not a message of Anthropic's."


class AnthropicBlock(msgspec.Struct):
    """One block of a message as far as a chat message can carry it."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    thinking: str = ""


class AnthropicMessage(msgspec.Struct):
    """A whole reply."""

    id: str
    model: str
    content: list[Raw]
    stop_reason: str | None = None
    stop_details: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


_decode_message = msgspec.json.Decoder(AnthropicMessage).decode
_decode_block = msgspec.json.Decoder(AnthropicBlock).decode
_decode = msgspec.json.decode


def build_completion(body: bytes, created: int) -> bytes:
    """The chat completion of a whole reply; raises UpstreamInvalid if it is none."""
    try:
        reply = _decode_message(body)
        message = build_message(reply)
    except UNREADABLE as fault:
        raise UpstreamInvalid(NO_ANSWER) from fault
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": find_finish_reason(reply.stop_reason)}
    document = {
        "id": reply.id,
        "object": "chat.completion",
        "created": created,
        "model": reply.model,
        "choices": [choice],
    }
    if reply.usage is not None:
        document["usage"] = to_chat_usage(reply.usage)
    return encode(document)


def find_finish_reason(stop_reason: str | None) -> str | None:
    """Chat's word for it; one that nobody knows passes as it is."""
    return FINISH_REASONS.get(stop_reason, stop_reason) if stop_reason is not None else None


def build_message(reply: AnthropicMessage) -> dict[str, Any]:
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    thoughts: list[dict[str, Any]] = []
    spoken = 0
    for raw in reply.content:
        block = _decode_block(raw)
        if block.type == "text":
            texts.append(block.text)
            spoken += len(block.text)
        elif block.type == "tool_use":
            calls.append(build_call(block))
        elif block.type in THOUGHT_KINDS:
            thoughts.append(mark_offset(_decode(raw), ThoughtOffset(spoken, len(calls))))
        else:
            raise_uncarried(block.type)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
    refusal = read_refusal(reply.stop_details)
    message["refusal"] = refusal
    if thoughts:
        told = "".join(str(one.get(THINKING, "")) for one in thoughts)
        message |= {"reasoning_content": told or None, "thinking_blocks": thoughts}
    if calls:
        message["tool_calls"] = calls
    return message


def build_call(block: AnthropicBlock) -> dict[str, Any]:
    return {
        "id": block.id,
        "type": "function",
        "function": {"name": block.name, "arguments": bytes(block.input).decode()},
    }


def read_refusal(details: Any) -> str | None:
    """Why the model refused, if it says so."""
    explanation = details.get("explanation") if isinstance(details, dict) else None
    return explanation if isinstance(explanation, str) and explanation else None


def raise_uncarried(kind: str) -> None:
    raise UpstreamInvalid(f"The upstream sent a block of type {kind[:80]!r}, which a chat completion cannot carry.")
