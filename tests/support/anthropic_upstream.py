"""Turns of a scripted model that speaks Anthropic's Messages."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.support.dialect_streams import write_message_events
from tests.support.spoken import SIGNATURE
from tests.support.upstream import Answer, Canned, Response

USAGE = {"input_tokens": 5, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 2}


@dataclass(frozen=True)
class MessageAnswer:
    """One turn: a JSON document, or the same as events when a stream was asked for."""

    blocks: tuple[dict[str, Any], ...]
    stop_reason: str = "end_turn"
    split: int = 0  # bytes per write, 0: all at once
    fields: dict[str, Any] = field(default_factory=dict)

    def respond(self, request: dict[str, Any], number: int) -> Response:
        message = {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-x",
            "content": list(self.blocks), "stop_reason": self.stop_reason, "stop_sequence": None,
            "usage": dict(USAGE), **self.fields,
        }  # fmt: skip
        headers = (("request-id", f"req_{number}"), ("anthropic-organization-id", "org-secret"))
        if not request.get("stream"):
            return Response(200, "application/json", (orjson.dumps(message),), headers)
        data = write_message_events(message)
        pieces = tuple(data[at : at + self.split] for at in range(0, len(data), self.split)) if self.split else (data,)
        return Response(200, "text/event-stream; charset=utf-8", pieces, headers)


def say_blocks(*blocks: dict[str, Any], **fields: Any) -> MessageAnswer:
    return MessageAnswer(blocks, fields=fields)


def say_text(text: str) -> MessageAnswer:
    return MessageAnswer((text_block(text),))


def call_tools(*blocks: dict[str, Any]) -> MessageAnswer:
    """A turn that ends with calls; texts and thoughts may come before them."""
    return MessageAnswer(blocks, "tool_use")


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def thought(text: str, signature: str = "c2lnbmVk") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def tool_use(name: str, id: str, /, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def fail(code: int, kind: str, message: str, **headers: str) -> Canned:
    """An error as Anthropic tells it."""
    body = orjson.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Canned(Response(code, "application/json", (body,), named))


STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def respond_with_message(answer: Answer, request: dict[str, Any], number: int) -> Response:
    """A turn of a scripted model as Anthropic's."""
    said = answer.message
    blocks: list[dict[str, Any]] = []
    if said.get("reasoning_content"):
        blocks.append(thought(said["reasoning_content"], SIGNATURE))
    if said.get("content"):
        blocks.append(text_block(said["content"]))
    for call in said.get("tool_calls") or ():
        blocks.append(tool_use(call["function"]["name"], call["id"], **orjson.loads(call["function"]["arguments"])))
    usage = {"input_tokens": 10, "output_tokens": 2}
    made = MessageAnswer(tuple(blocks), STOPS[answer.finish_reason], fields={"usage": usage})
    response = made.respond(request, number)
    whole = response.pieces[0]
    assert isinstance(whole, bytes)
    if not request.get("stream"):
        return response
    whole = whole.replace(b"\n", answer.newline)
    step = answer.split or len(whole)
    pieces = tuple(whole[at : at + step] for at in range(0, len(whole), step))
    return Response(200, response.media, (*answer.before, *pieces), response.headers)
