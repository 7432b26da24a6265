"""A stream of chat completion chunks as events of Anthropic's Messages."""

from typing import Any

from gateway import sse
from gateway.errors import UpstreamInvalid
from gateway.upstreams.translation.carried_fields import encode
from gateway.upstreams.translation.chat_completion import (
    CallSequence,
    ChatCall,
    ChatChoice,
    ChatDocument,
    ChatMessage,
    StreamedCall,
    ToldCall,
    ToldThought,
    decode_document,
    iterate_thoughts,
)
from gateway.upstreams.translation.chat_to_messages_reply import build_stop
from gateway.upstreams.translation.errors import to_messages_error_event
from gateway.upstreams.translation.messages_to_chat_stream import EventTranslator
from gateway.upstreams.translation.thoughts import FIELD_SIGNATURES, THINKING
from gateway.upstreams.translation.usage import to_messages_usage


class ChatToMessagesStream(EventTranslator):
    """One message, block after block. The usage of a chat stream comes last, so the message ends when that does."""

    def __init__(self) -> None:
        super().__init__()
        self._has_begun = False
        self._open = ""  # the kind of block that is open
        self._index = -1  # of the last block
        self._signature = ""  # that closes the open thought
        self._calls = CallSequence()
        self._call: StreamedCall | None = None  # the last one that was told
        self._has_refused = False
        self._finish: ChatChoice | None = None
        self._usage: dict[str, Any] | None = None
        self._done = False

    def end(self) -> bytes:
        return self._end_message() if self._finish is not None and not self._done else b""

    def _translate(self, data: bytes) -> bytes:
        if self._done:
            return b""
        if data == sse.DONE:
            return self._end_message()
        document = decode_document(data)
        if document.error is not None:
            self._done = True
            return to_messages_error_event(data)
        self._usage = document.usage or self._usage
        events = [] if self._has_begun else [self._begin(document)]
        choice = document.choices[0] if document.choices else None
        if choice is not None:
            events.append(self._add(choice.delta or ChatMessage()))
            if choice.finish_reason:
                events += [self._settle_calls(), self._close_block()]
                self._finish = choice
        return b"".join(events)

    def _begin(self, document: ChatDocument) -> bytes:
        if not document.choices and not document.id:
            return b""  # what some providers send before they begin
        self._has_begun = True
        message: dict[str, Any] = {
            "id": document.id or "",
            "type": "message",
            "role": "assistant",
            "model": document.model or "",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": to_messages_usage(None),
        }
        return encode_event({"type": "message_start", "message": message})

    def _add(self, delta: ChatMessage) -> bytes:
        events = [self._add_signed(block) for block in iterate_thoughts(delta)]
        if not events and not self._signature_is_real and (told := delta.find_thought()) is not None:
            events.append(self._think(told))
        self._has_refused = self._has_refused or bool(delta.refusal)
        if said := delta.text + (delta.refusal or ""):
            events.append(self._open_block("text", {"type": "text", "text": ""}))
            events.append(self._encode_delta({"type": "text_delta", "text": said}))
        events += [self._add_call(call) for call in delta.tool_calls or ()]
        return b"".join(events)

    @property
    def _signature_is_real(self) -> bool:
        """Whether the open thought comes in signed blocks, of which the other fields are copies."""
        return self._open == THINKING and not self._signature

    def _think(self, told: ToldThought) -> bytes:
        begun = self._open_block(THINKING, {"type": THINKING, THINKING: "", "signature": ""})
        self._signature = FIELD_SIGNATURES[told.field]
        return begun + self._encode_delta({"type": "thinking_delta", THINKING: told.text})

    def _add_signed(self, block: dict[str, Any]) -> bytes:
        """A fragment of a signed thought; one that is redacted comes whole."""
        if block.get("type") != THINKING:
            return self._open_block("redacted", block) + self._close_block()
        events = [self._open_block(THINKING, {"type": THINKING, THINKING: "", "signature": ""})]
        if told := block.get(THINKING):
            events.append(self._encode_delta({"type": "thinking_delta", THINKING: told}))
        if signature := block.get("signature"):
            events += [self._encode_delta({"type": "signature_delta", "signature": signature}), self._close_block()]
        return b"".join(events)

    def _add_call(self, delta: ChatCall) -> bytes:
        return b"".join([self._tell_call(told) for told in self._calls.take(delta)])

    def _tell_call(self, told: ToldCall) -> bytes:
        call, events = told.call, []
        if call is not self._call:
            events += [self._name_call(self._call), self._close_block()]
            self._call = call
        if told.arguments:
            events.append(self._name_call(call))
            if self._open != name_block(call):
                raise UpstreamInvalid("The upstream went back to a tool call after it had said something else.")
            events.append(self._encode_delta({"type": "input_json_delta", "partial_json": told.arguments}))
        return b"".join(events)

    def _settle_calls(self) -> bytes:
        """No more fragments of calls come."""
        return b"".join([self._tell_call(told) for told in self._calls.settle()]) + self._name_call(self._call)

    def _name_call(self, call: StreamedCall | None) -> bytes:
        """Begin the block of a call whose name is certain now."""
        if call is None or call.is_named:
            return b""
        call.is_named = True
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        return self._open_block(name_block(call), block)

    def _open_block(self, kind: str, block: dict[str, Any]) -> bytes:
        if self._open == kind:
            return b""
        closed = self._close_block()
        self._open = kind
        self._index += 1
        return closed + encode_event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _close_block(self) -> bytes:
        if not self._open:
            return b""
        signed = b""
        if self._signature:
            signed = self._encode_delta({"type": "signature_delta", "signature": self._signature})
        self._open = self._signature = ""
        return signed + encode_event({"type": "content_block_stop", "index": self._index})

    def _encode_delta(self, delta: dict[str, Any]) -> bytes:
        return encode_event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _end_message(self) -> bytes:
        self._done = True
        if not self._has_begun:
            return b""  # an end without a beginning is no message
        rest = self._settle_calls() + self._close_block()
        finish = self._finish or ChatChoice()
        stop = build_stop(finish, has_calls=self._calls.count > 0, has_refusal=self._has_refused)
        ended = {"type": "message_delta", "delta": stop, "usage": to_messages_usage(self._usage)}
        return rest + encode_event(ended) + encode_event({"type": "message_stop"})


def name_block(call: StreamedCall) -> str:
    """The kind of block that a call is: each is one of its own."""
    return f"tool_use {call.position}"


def encode_event(event: dict[str, Any]) -> bytes:
    """One event as Anthropic writes it, with its name."""
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encode(event))
