"""A stream of Anthropic's Messages as chat completion chunks, event by event."""

from typing import Any, Final, Protocol

import msgspec

from gateway import sse
from gateway.errors import UpstreamInvalid
from gateway.upstreams.translation.carried_fields import UNREADABLE, encode
from gateway.upstreams.translation.errors import to_chat_error
from gateway.upstreams.translation.messages_to_chat_reply import find_finish_reason, raise_uncarried, read_refusal
from gateway.upstreams.translation.thoughts import REDACTED, THINKING, ThoughtOffset, mark_offset
from gateway.upstreams.translation.usage import to_chat_usage

KEEPALIVE: Final = b": ping\n\n"
MAX_BLOCKS: Final = 10_000  # of one message


class StreamTranslator(Protocol):
    """A stream of one dialect goes in piece by piece, another comes out, without I/O."""

    def feed(self, chunk: bytes) -> bytes:
        """Take bytes; return the events that are certain now. Raises UpstreamInvalid for what is no such stream."""
        ...

    def end(self) -> bytes:
        """The stream ended cleanly: what is left to say. A stream that broke off gets no end."""
        ...


class EventTranslator:
    """What all of them share: whole events out of pieces, each handed to `_translate`."""

    def __init__(self) -> None:
        self._events = sse.EventBuffer()

    def feed(self, chunk: bytes) -> bytes:
        data = self._events.take(chunk)
        if len(self._events) > sse.MAX_EVENT_BYTES:
            raise UpstreamInvalid("The upstream sent an event that never ends.")
        if not data:
            return b""
        try:
            return b"".join([self._take_event(event) for event in sse.split_events(data)])
        except UNREADABLE as fault:
            raise UpstreamInvalid("The upstream's stream carries something unreadable.") from fault

    def end(self) -> bytes:
        return b""

    def _take_event(self, event: bytes) -> bytes:
        data = sse.read_payload(event)
        if data is None:
            return KEEPALIVE if event.startswith(b":") else b""
        return self._translate(data) if data else b""

    def _translate(self, data: bytes) -> bytes:
        """The events that the payload of one event becomes."""
        raise NotImplementedError


class AnthropicEvent(msgspec.Struct):
    """One event, with the fields of all kinds."""

    type: str
    index: int = 0
    message: dict[str, Any] | None = None
    content_block: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(AnthropicEvent).decode


class OpenBlock(msgspec.Struct):
    """A block whose deltas are coming."""

    kind: str
    position: int = 0  # among the calls or the thoughts
    has_input: bool = False


class MessagesToChatStream(EventTranslator):
    """Chunks of one chat completion; the usage comes last if the client asked for it."""

    def __init__(self, created: int, *, wants_usage: bool) -> None:
        super().__init__()
        self._head: dict[str, Any] = {"id": "", "object": "chat.completion.chunk", "created": created, "model": ""}
        self._wants_usage = wants_usage
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, OpenBlock] = {}
        self._begun = 0  # blocks so far
        self._offset = ThoughtOffset()
        self._thoughts = 0
        self._finished = False  # it is told why the model stopped
        self._done = False

    def end(self) -> bytes:
        """The usage comes with the last event; a stream that ends in order after the finish lacks only that."""
        return self._tell_usage() if self._finished and not self._done else b""

    def _translate(self, data: bytes) -> bytes:
        if self._done:
            return b""
        event = _decode(data)
        match event.type:
            case "message_start":
                return self._start_message(event.message or {})
            case "content_block_start":
                return self._start_block(event.index, event.content_block or {})
            case "content_block_delta":
                return self._add(event.index, event.delta or {})
            case "content_block_stop":
                return self._stop_block(event.index)
            case "message_delta":
                return self._finish(event.delta or {}, event.usage or {})
            case "message_stop":
                return self._stop_message()
            case "ping":
                return KEEPALIVE
            case "error":
                self._done = True
                return sse.encode_event(to_chat_error(data))
        return b""  # Anthropic adds kinds of events that clients have to pass over

    def _start_message(self, message: dict[str, Any]) -> bytes:
        self._head |= {name: message[name] for name in ("id", "model") if isinstance(message.get(name), str)}
        self._add_usage(message.get("usage"))
        return self._encode({"role": "assistant", "content": ""})

    def _start_block(self, index: int, block: dict[str, Any]) -> bytes:
        self._begun += 1
        if self._begun > MAX_BLOCKS:
            raise UpstreamInvalid(f"The upstream sent a message with more than {MAX_BLOCKS} blocks.")
        kind = str(block.get("type"))
        if kind == "text":
            self._blocks[index] = OpenBlock(kind)
            return self._speak(str(block.get("text") or ""))
        if kind == "tool_use":
            return self._start_call(index, block)
        if kind in (THINKING, REDACTED):
            self._blocks[index] = OpenBlock(kind, self._thoughts)
            self._thoughts += 1
            told = str(block.get(THINKING) or "")
            started = {"index": self._thoughts - 1, **block}
            return self._think(mark_offset(started, self._offset), told)
        raise_uncarried(kind)
        return b""

    def _start_call(self, index: int, block: dict[str, Any]) -> bytes:
        position = self._offset.calls
        self._blocks[index] = OpenBlock("tool_use", position)
        self._offset = ThoughtOffset(self._offset.text, position + 1)
        function = {"name": str(block.get("name") or ""), "arguments": ""}
        call = {"index": position, "id": str(block.get("id") or ""), "type": "function", "function": function}
        begun = self._encode({"tool_calls": [call]})
        given = block.get("input")
        return begun + self._write_arguments(index, encode(given).decode()) if given else begun

    def _add(self, index: int, delta: dict[str, Any]) -> bytes:
        match delta.get("type"):
            case "text_delta":
                return self._speak(str(delta.get("text") or ""))
            case "input_json_delta":
                return self._write_arguments(index, str(delta.get("partial_json") or ""))
            case "thinking_delta":
                told = str(delta.get(THINKING) or "")
                return self._think({"index": self._get(index).position, "type": THINKING, THINKING: told}, told)
            case "signature_delta":
                signature = delta.get("signature")
                return self._think({"index": self._get(index).position, "type": THINKING, "signature": signature}, "")
        return b""  # citations are only sent to those who asked for them

    def _get(self, index: int) -> OpenBlock:
        block = self._blocks.get(index)
        if block is None:
            raise UpstreamInvalid("The upstream sent a delta of a block that was never begun.")
        return block

    def _speak(self, text: str) -> bytes:
        self._offset = ThoughtOffset(self._offset.text + len(text), self._offset.calls)
        return self._encode({"content": text}) if text else b""

    def _think(self, fragment: dict[str, Any], told: str) -> bytes:
        shown = {"reasoning_content": told} if told else {}
        return self._encode({**shown, "thinking_blocks": [fragment]})

    def _write_arguments(self, index: int, text: str) -> bytes:
        block = self._get(index)
        if not text:
            return b""
        block.has_input = True
        return self._encode({"tool_calls": [{"index": block.position, "function": {"arguments": text}}]})

    def _stop_block(self, index: int) -> bytes:
        block = self._blocks.pop(index, None)
        if block is None or block.kind != "tool_use" or block.has_input:
            return b""
        self._blocks[index] = block
        written = self._write_arguments(index, "{}")
        del self._blocks[index]
        return written

    def _finish(self, delta: dict[str, Any], usage: dict[str, Any]) -> bytes:
        self._add_usage(usage)
        reason = delta.get("stop_reason")
        if not isinstance(reason, str) or self._finished:
            return b""
        self._finished = True
        refusal = read_refusal(delta.get("stop_details"))
        said = {"refusal": refusal} if refusal else {}
        return self._encode(said, find_finish_reason(reason))

    def _stop_message(self) -> bytes:
        self._done = True
        return self._tell_usage() + sse.DONE_EVENT

    def _tell_usage(self) -> bytes:
        if not self._wants_usage:
            return b""
        return sse.encode_event(encode({**self._head, "choices": [], "usage": to_chat_usage(self._usage)}))

    def _add_usage(self, usage: Any) -> None:
        """Counts of a later event are totals, not additions."""
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _encode(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return sse.encode_event(encode({**self._head, "choices": [choice]}))
