"""Streams of chat chunks: what the client may see of each event, and when."""

from typing import Any

import msgspec
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.chat.calls import CallTracker
from gateway.conversation.dialects.chat.reply import CUT_SHORT_REASONS, JOINED_FIELDS, read_usage
from gateway.conversation.dialects.chat.stream_turn import PlainEvents, StreamTurn, build_chunk_error
from gateway.conversation.dialects.openai_errors import render_openai_error_event
from gateway.conversation.dialects.raw_body import UNREADABLE
from gateway.conversation.turn import (
    FIRST_TURN,
    TEXT_SEPARATOR,
    LoopPlan,
    Turn,
    TurnStart,
    add_usage,
    has_text,
    has_value,
)
from gateway.errors import GatewayError, UpstreamTruncated

MAX_UNREAD_BYTES = 256 * 1024  # raw events are assembled into the message beyond so many bytes

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode = msgspec.json.decode


class ChatStreamView:
    """One stream for the client, made of those of all turns."""

    plain_start = b""

    def __init__(self, plan: LoopPlan) -> None:
        self.failed = False
        self._last_text_only, self._forces_usage = plan.last_text_only, plan.forces_usage
        self._turn = FIRST_TURN
        self._now = StreamTurn(CallTracker(frozenset()))
        self._plain = PlainEvents()
        self._head: dict[str, Any] = {}  # id, created and model of turn 1
        self._spoken: set[str] = set()  # fields in which earlier turns showed text
        self._role_shown = False

    @property
    def done(self) -> bool:
        return self._now.done

    @property
    def may_be_silent(self) -> bool:
        return self._turn.number > 1 or self._last_text_only or bool(self._now.tracker.calls)

    def begin_turn(self, start: TurnStart) -> None:
        self._turn = start
        self._now = StreamTurn(CallTracker(start.own_names))

    def pass_unread(self, data: bytes) -> bytes:
        """The leading events that carry nothing but text, in a turn whose text is shown as it comes."""
        if self._turn.number > 1 or self._last_text_only or self._now.done or self.failed:
            return b""
        end = self._plain.measure(data)
        passed = data if end == len(data) else data[:end]
        if passed:
            self._remember(passed)
        return passed

    def end_turn(self, tail: bytes) -> Turn:
        """The message that the chunks add up to, as far as anybody needs it."""
        now = self._now
        if tail.strip() == b"data: [DONE]":
            now.done = True
        if not now.done and now.finish_reason is None:
            raise UpstreamTruncated("The upstream's stream ended before it was complete.")
        self._settle_open_calls()
        if self._hides_calls:
            self._assemble()
        return Turn(
            message=now.encode_message(self._turn.number),
            calls=[call.make_turn_call() for call in now.tracker.calls],
            text=str(now.message.get("content") or ""),
            cut_short=now.finish_reason in CUT_SHORT_REASONS,
            usage=now.usage,
        )

    def hide_turn(self) -> None:
        shown = (name for name in JOINED_FIELDS if name != "content" or not self._last_text_only)
        self._spoken |= {name for name in shown if self._now.message.get(name)}
        if self._now.held:
            self._role_shown = self._now.role_shown

    def render_error(self, error: GatewayError) -> bytes:
        return render_openai_error_event(error)

    def take_event(self, event: bytes) -> bytes:
        """Take one whole event; return what the client may see of it."""
        if self._now.done or self.failed:
            return b""
        data = sse.read_payload(event)
        if not data:
            return event if data is None else b""
        if data == sse.DONE:
            self._now.done = True
            return b""
        role_shown = self._role_shown
        try:
            shown = self._show(event, _decode_object(data))
        except UNREADABLE as fault:
            raise build_chunk_error() from fault
        if self._holds_text and self._now.has_text and not self.failed:
            self._now.role_shown = self._now.role_shown if self._now.held else role_shown
            self._now.held.append(shown)
            return b""
        return self._release_text() + shown if self._now.held and not self.failed else shown

    def _release_text(self) -> bytes:
        """The text that waited, once it is known to be the answer."""
        held, self._now.held = self._now.held, []
        return b"".join(held)

    @property
    def _holds_text(self) -> bool:
        """Whether text waits: only the last turn's may be shown, and this one may still call our tools."""
        if not self._last_text_only or self._turn.is_last:
            return False
        return self._now.finish_reason is None or self._now.tracker.has_own_calls

    def _show(self, event: bytes, top: dict[str, Any]) -> bytes:
        if "error" in top and has_value(top, "error"):
            self.failed = True
            return event
        choices = _decode_objects(top["choices"]) if has_value(top, "choices") else []
        if "usage" in top:
            self._now.usage = read_usage(top["usage"]) or self._now.usage
        if not choices:
            return self._show_without_choice(event, top)
        choice = choices[0]
        delta = _decode(choice["delta"], type=dict) if has_value(choice, "delta") else {}
        repeats_role = self._turn.number == 1 and bool(delta.get("role")) and self._knows_role
        self._remember(event)
        self._now.has_text = self._now.has_text or bool(delta.get("content"))
        self._role_shown = self._role_shown or (self._turn.number == 1 and bool(delta.get("role")))
        deltas = msgspec.convert(delta.get("tool_calls") or [], list[dict[str, Any]])
        calls = self._now.tracker.take(deltas)
        if has_text(choice, "finish_reason"):
            calls += self._now.tracker.settle()
            self._now.finish_reason = _decode(choice["finish_reason"], type=str)
        if self._turn.number == 1 and calls == deltas and not (repeats_role or self._finish_waits):
            return event
        if repeats_role:
            del delta["role"]
        return self._rewrite(top, choice, delta, calls)

    @property
    def _knows_role(self) -> bool:
        """Whether the client has seen the role."""
        if self._plain.has_role and not self._role_shown:
            self._assemble()
        return self._role_shown

    def _show_without_choice(self, event: bytes, top: dict[str, Any]) -> bytes:
        """A usage chunk, or something that a provider sends before it begins."""
        if has_value(top, "usage"):
            if not self._forces_usage:
                self._now.usage_event = top
            return b""
        return event if self._turn.number == 1 else b""

    @property
    def _finish_waits(self) -> bool:
        """Whether the finish has to wait until our calls have run and the hidden turns are stored."""
        return self._now.finish_reason is not None and self._hides_calls

    @property
    def _hides_calls(self) -> bool:
        """Whether this turn's message has calls that the client does not see, or follows one that has."""
        tracker = self._now.tracker
        return tracker.has_own_calls or (self._turn.number > 1 and tracker.has_client_calls)

    def _rewrite(self, top: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any], calls: list[Any]) -> bytes:
        shown = {key: value for key, value in delta.items() if key != "tool_calls"}
        if self._turn.number > 1:
            self._continue_message(shown)
        if calls:
            shown["tool_calls"] = calls
        top = {**top, **self._head}
        self._set_usage(top)
        is_last = has_text(choice, "finish_reason")
        if is_last and self._finish_waits:
            self._now.finish_event = {**top, "choices": [{**choice, "delta": {}}]}
            choice = {**choice, "finish_reason": None}
            top.pop("usage", None)  # it goes with the finish
            is_last = False
        if not is_last and not any(shown.values()):
            return b""
        return sse.encode_event(_encode({**top, "choices": [{**choice, "delta": shown}]}))

    def _continue_message(self, delta: dict[str, Any]) -> None:
        """Make a delta of a later turn continue the one message that the client sees."""
        delta.pop("role", None)
        if not self._role_shown:
            delta["role"] = "assistant"
            self._role_shown = True
        for name in JOINED_FIELDS:
            text = delta.get(name)
            if text and name in self._spoken and name not in self._now.rejoined:
                # Some providers send parts instead of text.
                parted = [{"type": "text", "text": TEXT_SEPARATOR}, *text] if isinstance(text, list) else None
                delta[name] = parted or TEXT_SEPARATOR + str(text)
                self._now.rejoined.add(name)

    def _set_usage(self, top: dict[str, Any]) -> None:
        """A chunk with choices may carry usage too, which nobody had to ask for: show the sum."""
        if has_value(top, "usage"):
            spent = self._turn.spent
            top["usage"] = add_usage(spent, self._now.usage) if spent else self._now.usage

    def _settle_open_calls(self) -> None:
        """A stream may end with [DONE] and no finish_reason: show the calls that waited for one."""
        calls = self._now.tracker.settle()
        if calls:
            self._now.held.append(
                sse.encode_event(_encode({**self._head, "choices": [{"index": 0, "delta": {"tool_calls": calls}}]}))
            )

    def finish(self, turn: Turn, usage: dict[str, Any] | None) -> bytes:
        """What waited, the finish, the usage of all turns if it is told, and [DONE]."""
        now = self._now
        last = list(now.held)
        if now.finish_event is not None:
            now.finish_event["choices"][0]["finish_reason"] = "stop" if turn.gave_up else now.finish_reason
            last.append(sse.encode_event(_encode(now.finish_event)))
        if now.usage_event is not None:
            last.append(sse.encode_event(_encode({**now.usage_event, **self._head, "usage": usage})))
        last.append(sse.DONE_EVENT)
        return b"".join(last)

    def _remember(self, data: bytes) -> None:
        now = self._now
        now.unread.append(data)
        now.unread_size += len(data)
        if now.unread_size > MAX_UNREAD_BYTES:
            self._assemble()

    def _assemble(self) -> None:
        """Add the raw events of this turn to its message."""
        now = self._now
        now.assemble()
        self._head = self._head or now.head
        self._role_shown = self._role_shown or now.has_role
