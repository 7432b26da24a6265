"""Streams of chat chunks that are relayed: whether they are complete, and what they used."""

import re
from typing import Any

import msgspec

from gateway import sse
from gateway.conversation.dialects.openai_errors import render_openai_error_event
from gateway.errors import GatewayError, UpstreamInvalid, UpstreamTruncated

MAX_USAGE_EVENT = 64 * 1024  # bytes of events that are kept for the usage they may report
DONE_STARTS = (b"data: ", b"data:")  # of the line that says [DONE]
LONGEST_START = max(map(len, DONE_STARTS))
LATER_DONE_STARTS = tuple(b"\n" + start for start in DONE_STARTS)

_FINISH = re.compile(rb'"finish_reason"\s*:\s*"(?!")')  # some providers say "" until they finish


class _ErrorEvent(msgspec.Struct):
    error: Any = None


_decode = msgspec.json.Decoder(_ErrorEvent).decode


class ChatRelayView:
    """A stream that passes as it comes: how far it got, found without reading it.

    A literal `"finish_reason":"x` or a line `data: [DONE]` cannot stand inside a JSON string, where quotes and newlines
    are escaped, so looking for their bytes is enough.
    """

    __slots__ = ("_events", "_finished", "done", "failed", "needs_driver", "usage_event")

    def __init__(self) -> None:
        self._events = sse.EventBuffer()
        self._finished = False
        self.done = False  # [DONE] has come
        self.failed = False  # the upstream's own error has come
        self.needs_driver = False
        self.usage_event = b""  # the last events that may report the usage

    def feed(self, chunk: bytes) -> bytes:
        ready = self._events.take(chunk)
        if len(self._events) > sse.MAX_EVENT_BYTES:
            raise UpstreamInvalid("The upstream sent an event that never ends.")
        if ready:
            self.done = self.done or is_done(ready)
            self._finished = self._finished or self.done or _FINISH.search(ready) is not None
            self.failed = self.failed or contains_error(ready)
            self.needs_driver = self.done or self.failed
            if sse.reports_usage(ready):
                self.usage_event = ready[-MAX_USAGE_EVENT:]
        return ready

    def end(self) -> bytes:
        """The stream has ended: what it lacks; raises UpstreamTruncated if that is more than its [DONE]."""
        if self.failed or self.done:
            return b""
        if not self._finished and not is_done(self._events.tail):
            raise UpstreamTruncated("The upstream's stream ended before it was complete.")
        return sse.DONE_EVENT

    def render_error(self, error: GatewayError) -> bytes:
        return render_openai_error_event(error)


def is_done(data: bytes) -> bool:
    """Whether one of these lines is [DONE]; searched from the end, where it stands."""
    at = data.rfind(sse.DONE)
    while at >= 0:
        if data.endswith(LATER_DONE_STARTS, 0, at) or (at <= LONGEST_START and data[:at] in DONE_STARTS):
            return True
        at = data.rfind(sse.DONE, 0, at)
    return False


def contains_error(data: bytes) -> bool:
    """Whether one of these events is the upstream's own error."""
    return b'"error"' in data and any(map(is_error, sse.split_events(data)))


def is_error(event: bytes) -> bool:
    try:
        return _decode(sse.read_payload(event) or b"{}").error is not None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
