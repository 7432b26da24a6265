"""Chat completions, whole or in chunks, as OpenAI's Responses."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway import sse
from gateway.errors import UpstreamInvalid
from gateway.upstreams.translation.carried_fields import UNREADABLE, encode
from gateway.upstreams.translation.chat_completion import (
    ChatChoice,
    ChatDocument,
    ChatMessage,
    decode_completion,
    decode_document,
)
from gateway.upstreams.translation.errors import read_code, read_error, read_message
from gateway.upstreams.translation.messages_to_chat_stream import EventTranslator
from gateway.upstreams.translation.response_output import ResponseOutput
from gateway.upstreams.translation.thoughts import THINKING, read_offset
from gateway.upstreams.translation.usage import to_responses_usage

# What a response repeats of its request, and what it says where the request says nothing.
ECHOED: Final[dict[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class ResponseHead:
    """What a response says besides its output: its name, its model, and the options of its request."""

    def __init__(self, request: bytes, identity: str, created: int) -> None:
        try:
            asked = _decode_fields(request)
        except UNREADABLE:
            asked = {}
        self.identity = identity
        self._fixed: dict[str, Any] = {"id": f"resp_{identity}", "object": "response", "created_at": created}
        self._model: Any = asked.get("model", "")
        self._echoed = {name: asked.get(name, default) for name, default in ECHOED.items()}

    def note(self, document: ChatDocument) -> None:
        """The model and the tier that really answered."""
        self._model = document.model or self._model
        if document.service_tier is not None:
            self._echoed["service_tier"] = document.service_tier

    def build(
        self, output: list[dict[str, Any]], choice: ChatChoice | None = None, usage: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The response: in progress without a choice that ends it."""
        reason = INCOMPLETE.get(choice.finish_reason or "") if choice is not None else None
        ended = "incomplete" if reason is not None else "completed"
        return {
            **self._fixed,
            "status": "in_progress" if choice is None else ended,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": reason} if reason is not None else None,
            "model": self._model,
            "output": output,
            **self._echoed,
            "usage": to_responses_usage(usage),
        }


def build_response(body: bytes, head: ResponseHead) -> bytes:
    """The response of a whole completion; raises UpstreamInvalid if it is none."""
    document = decode_completion(body)
    assert document.choices
    choice = document.choices[0]
    assert choice.message
    head.note(document)
    output = ResponseOutput(head.identity)
    for position, call in enumerate(choice.message.tool_calls or ()):
        call.index = position  # some providers give no ids, or the same to all of them
    for part in split_at_thoughts(choice.message):
        output.add(part, choice.logprobs)
    output.close(is_cut=choice.finish_reason in INCOMPLETE)
    return encode(head.build(output.items, choice, document.usage))


def split_at_thoughts(message: ChatMessage) -> Iterator[ChatMessage]:
    """A message in the order in which the model wrote it: thoughts may stand between its texts and calls."""
    thoughts = message.thinking_blocks or []
    if not any("offset" in thought for thought in thoughts):
        yield message
        return
    text, calls = message.text, message.tool_calls or []
    taken = placed = 0
    for thought in thoughts:
        offset = read_offset(thought)
        yield ChatMessage(content=text[taken : offset.text], tool_calls=calls[placed : offset.calls])
        yield ChatMessage(reasoning_content=thought.get(THINKING), thinking_blocks=[thought])
        taken, placed = max(taken, offset.text), max(placed, offset.calls)
    yield ChatMessage(content=text[taken:], refusal=message.refusal, tool_calls=calls[placed:])


class ChatToResponsesStream(EventTranslator):
    """One response from `response.created` to `response.completed`, numbered without gaps."""

    def __init__(self, head: ResponseHead) -> None:
        super().__init__()
        self._head = head
        self._output = ResponseOutput(head.identity)
        self._number = 0
        self._finish: ChatChoice | None = None
        self._usage: dict[str, Any] | None = None
        self._done = False

    def end(self) -> bytes:
        return self._end_response() if self._finish is not None and not self._done else b""

    def _translate(self, data: bytes) -> bytes:
        if self._done:
            return b""
        if data == sse.DONE:
            return self._end_response()
        document = decode_document(data)
        if document.error is not None:
            self._done = True
            return self._encode([describe_error(data)])
        self._usage = document.usage or self._usage
        choice = document.choices[0] if document.choices else None
        if choice is None:
            return b""
        events = self._begin(document) if not self._number else []
        if choice.delta is not None:
            events += self._output.add(choice.delta, choice.logprobs)
        if choice.finish_reason:
            events += self._output.close(is_cut=choice.finish_reason in INCOMPLETE)
            self._finish = choice
        return self._encode(events)

    def _begin(self, document: ChatDocument) -> list[dict[str, Any]]:
        self._head.note(document)
        started = self._head.build([])
        return [{"type": f"response.{word}", "response": started} for word in ("created", "in_progress")]

    def _end_response(self) -> bytes:
        self._done = True
        if not self._number:
            raise UpstreamInvalid("The upstream's stream ended without an answer.")
        events = self._output.close()
        response = self._head.build(self._output.items, self._finish or ChatChoice(), self._usage)
        return self._encode([*events, {"type": f"response.{response['status']}", "response": response}])

    def _encode(self, events: list[dict[str, Any]]) -> bytes:
        written = []
        for event in events:
            numbered = encode({**event, "sequence_number": self._number})
            written.append(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), numbered))
            self._number += 1
        return b"".join(written)


def describe_error(body: bytes) -> dict[str, Any]:
    """An error in the middle of a stream."""
    error = read_error(body)
    code = error.get("code") or read_code(error) or error.get("type")
    return {"type": "error", "code": code, "message": read_message(error), "param": error.get("param")}
