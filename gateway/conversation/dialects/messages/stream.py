"""Streams of message events: what the client may see of each, and when."""

from typing import Any, Literal

import msgspec
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.messages.errors import render_messages_error_event
from gateway.conversation.dialects.messages.stream_turn import MessageTurn, StreamBlock
from gateway.conversation.turn import FIRST_TURN, TEXT_SEPARATOR, LoopPlan, Turn, TurnStart
from gateway.errors import GatewayError, UpstreamInvalid, UpstreamTruncated

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
STOP_EVENT = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
NULL = Raw(b"null")
PLAIN_START = b"event: content_block_delta\ndata: "
PLAIN_BORDER = b"\n\n" + PLAIN_START

_encode = msgspec.json.Encoder().encode


class MessageEvent(msgspec.Struct):
    """One event, with the fields of all kinds."""

    type: str
    index: int = -1
    content_block: Raw = NULL
    delta: Raw = NULL
    message: Raw = NULL
    usage: Raw = NULL


class _StartedMessage(msgspec.Struct):
    usage: Raw = NULL


class _FinishDelta(msgspec.Struct):
    type: str = ""
    text: str = ""
    stop_reason: str | None = None


class _PlainTextDelta(msgspec.Struct, gc=False):
    type: Literal["text_delta"]
    text: str


class _PlainBlockDelta(msgspec.Struct, gc=False):
    """A piece of text and nothing else."""

    type: Literal["content_block_delta"]
    index: int
    delta: _PlainTextDelta


_decode_plain = msgspec.json.Decoder(list[_PlainBlockDelta]).decode
_decode_event = msgspec.json.Decoder(MessageEvent).decode
_decode_message = msgspec.json.Decoder(_StartedMessage).decode
_decode_delta = msgspec.json.Decoder(_FinishDelta).decode


class MessagesStreamView:
    """One stream for the client, made of those of all turns; its blocks are numbered without gaps."""

    plain_start = PLAIN_START

    def __init__(self, plan: LoopPlan) -> None:
        self.failed = False
        self._last_text_only = plan.last_text_only
        self._turn = FIRST_TURN
        self._now = MessageTurn()
        self._begun = False  # the client saw how the message begins
        self._shown = 0  # blocks that the client saw
        self._spoken = False  # earlier turns showed text

    @property
    def done(self) -> bool:
        return self._now.done

    @property
    def may_be_silent(self) -> bool:
        return self._turn.number > 1 or self._last_text_only or self._now.has_own_calls

    def begin_turn(self, start: TurnStart) -> None:
        self._turn = start
        self._now = MessageTurn()

    def pass_unread(self, data: bytes) -> bytes:
        """Events that carry nothing but text of a block that the client sees, while its numbers are the upstream's."""
        now = self._now
        if self._turn.number > 1 or self._last_text_only or now.has_own_calls or now.done or self.failed:
            return b""
        found = read_plain_events(data)
        block = now.by_index.get(found[0].index) if found else None
        if block is None or block.head.type != "text" or block.index != block.told:
            return b""
        if any(one.index != block.told for one in found):
            return b""
        text = "".join([one.delta.text for one in found])
        block.deltas.append(Raw(_encode({"type": "text_delta", "text": text})))
        now.spoken = now.spoken or bool(text)
        return data

    def take_event(self, event: bytes) -> bytes:
        """Take one whole event; return what the client may see of it."""
        if self._now.done or self.failed:
            return b""
        data = sse.read_payload(event)
        if not data:
            return event if data is None else b""
        try:
            return self._show(event, _decode_event(data))
        except UNREADABLE as fault:
            raise UpstreamInvalid(
                "The upstream's stream carries something that is not an event of a message."
            ) from fault

    def end_turn(self, tail: bytes) -> Turn:
        """The message that the events add up to, as far as anybody needs it."""
        now = self._now
        if not now.done and now.stop_reason is None:
            raise UpstreamTruncated("The upstream's stream ended before it was complete.")
        try:
            return now.build()
        except (*UNREADABLE, KeyError) as fault:
            raise UpstreamInvalid("The upstream's stream carries a block that cannot be read.") from fault

    def hide_turn(self) -> None:
        self._spoken = self._spoken or self._now.spoken

    def finish(self, turn: Turn, usage: dict[str, Any] | None) -> bytes:
        """Why the model stopped, with the usage of all turns, and the end."""
        now = self._now
        rest = self._release()
        if now.finish is None:
            return rest + STOP_EVENT
        if now.finish_event and self._turn.number == 1 and not turn.gave_up:
            return rest + now.finish_event + STOP_EVENT
        delta = msgspec.json.decode(now.finish["delta"])
        if turn.gave_up:
            delta["stop_reason"] = "end_turn"
        ended = {**now.finish, "delta": delta, "usage": usage or {}}
        return rest + b"event: message_delta\ndata: " + _encode(ended) + b"\n\n" + STOP_EVENT

    def render_error(self, error: GatewayError) -> bytes:
        return render_messages_error_event(error)

    def _show(self, event: bytes, read: MessageEvent) -> bytes:
        now = self._now
        match read.type:
            case "content_block_delta":
                return self._show_delta(event, read)
            case "content_block_start":
                return self._show_start(event, read)
            case "content_block_stop":
                block = now.by_index.pop(read.index, None)
                return b"" if block is None else self._show_part(event, block, {"type": read.type})
            case "message_start":
                now.add_usage(_decode_message(read.message).usage)
                is_first, self._begun = not self._begun, True
                return event if is_first else b""
            case "message_delta":
                return self._take_finish(event, read)
            case "message_stop":
                now.done = True
                return b""
            case "error":
                self.failed = True
                return event
        return event  # a ping, or what Anthropic adds

    def _take_finish(self, event: bytes, read: MessageEvent) -> bytes:
        now = self._now
        now.add_usage(read.usage)
        reason = _decode_delta(read.delta).stop_reason
        now.finish_event = event if now.finish is None else b""  # several are told as one
        if now.finish is None or reason is not None:
            now.finish = {"type": read.type, "delta": read.delta}
        now.stop_reason = reason or now.stop_reason
        return b"" if now.has_own_calls else self._release()

    def _show_start(self, event: bytes, read: MessageEvent) -> bytes:
        block = self._now.begin_block(read.index, read.content_block, self._turn.own_names)
        return self._show_part(event, block, {"type": read.type, "content_block": read.content_block})

    def _show_delta(self, event: bytes, read: MessageEvent) -> bytes:
        now = self._now
        block = now.by_index.get(read.index)
        if block is None:
            raise UpstreamInvalid("The upstream sent a delta of a block that was never begun.")
        block.deltas.append(read.delta)
        part: dict[str, Any] = {"type": read.type, "delta": read.delta}
        if block.head.type == "text" and not now.spoken and not block.own:
            delta = _decode_delta(read.delta)
            now.spoken = bool(delta.text)
            if now.spoken and self._spoken and not self._last_text_only:
                part["delta"] = {"type": delta.type, "text": TEXT_SEPARATOR + delta.text}
                return self._show_part(b"", block, part)
        return self._show_part(event, block, part)

    def _show_part(self, event: bytes, block: StreamBlock, part: dict[str, Any]) -> bytes:
        """An event of a block as the client sees it: as it came if its index is the same, else renumbered."""
        if block.own:
            return b""
        if self._holds and (self._now.held or block.head.type == "text"):
            self._now.held.append((block, part))
            return b""
        return self._render(event, block, part)

    @property
    def _holds(self) -> bool:
        """Whether text waits: only the last turn's may be shown, and this one may still call our tools."""
        return self._last_text_only and not self._turn.is_last and self._now.stop_reason is None

    def _release(self) -> bytes:
        held, self._now.held = self._now.held, []
        return b"".join([self._render(b"", block, part) for block, part in held])

    def _render(self, event: bytes, block: StreamBlock, part: dict[str, Any]) -> bytes:
        if not self._begun:
            raise UpstreamInvalid("The upstream sent a block before its message began.")
        if block.index < 0:
            block.index = self._shown
            self._shown += 1
        same = self._turn.number == 1 and block.index == block.told
        if event and same and not self._now.has_own_calls and not self._last_text_only:
            return event
        kind = part.pop("type")
        numbered = {"type": kind, "index": block.index, **part}
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode(numbered))


def read_plain_events(data: bytes) -> list[_PlainBlockDelta]:
    """Events that are pieces of text and nothing else; none if they are more."""
    if not data.startswith(PLAIN_START) or not data.endswith(b"\n\n"):
        return []
    try:
        # No JSON contains a line feed inside a string: the events become one array, which is checked in one go.
        found = _decode_plain(b"[" + data[len(PLAIN_START) :].replace(PLAIN_BORDER, b",") + b"]")
    except UNREADABLE:
        return []
    return found if len(found) == data.count(PLAIN_BORDER) + 1 else []
