"""Streams of message events that are relayed: whether they are complete, and what they used."""

import re

from gateway import sse
from gateway.conversation.dialects.messages.errors import render_messages_error_event
from gateway.errors import GatewayError, UpstreamInvalid, UpstreamTruncated

MAX_USAGE_EVENT = 64 * 1024  # bytes of events that are kept for the usage they may report
START, STOP, ERROR, FINISH = b"message_start", b"message_stop", b"error", b"message_delta"
DELTA = b"event: content_block_delta\n"  # it says nothing about the end
DELTA_BORDER = b"\n\n" + DELTA

# Events of interest, by their names or, where they have none, by how their data begins. Such a line cannot stand inside
# JSON, where line feeds are escaped.
_KINDS = re.compile(
    rb'^(?:event: ?|data: ?\{"type": ?")(message_start|message_stop|error|message_delta)\b', re.MULTILINE
)
_REASON = re.compile(rb'"stop_reason"\s*:\s*"')  # an event that tells the usage may come before the one that has it


class MessagesRelayView:
    """A stream that passes as it comes: how far it got, found without reading it."""

    __slots__ = ("_events", "_finished", "_started", "done", "failed", "needs_driver", "usage_event")

    def __init__(self) -> None:
        self._events = sse.EventBuffer()
        self._started = b""  # the event that tells what the prompt used
        self._finished = False
        self.done = False
        self.failed = False
        self.needs_driver = False
        self.usage_event = b""

    def feed(self, chunk: bytes) -> bytes:
        ready = self._events.take(chunk)
        if not ready and len(self._events) > sse.MAX_EVENT_BYTES:
            raise UpstreamInvalid("The upstream sent an event that never ends.")
        if ready and not (ready.startswith(DELTA) and ready.count(b"\n\n") == ready.count(DELTA_BORDER) + 1):
            self._look(ready)
        return ready

    def _look(self, ready: bytes) -> None:
        kinds = _KINDS.findall(ready)
        self.done = self.done or STOP in kinds
        self.failed = self.failed or ERROR in kinds
        finishes = FINISH in kinds and _REASON.search(ready) is not None
        self._finished = self._finished or self.done or finishes
        self.needs_driver = self.done or self.failed
        if not sse.reports_usage(ready):
            return
        if not self._started and START in kinds:
            self._started = ready[:MAX_USAGE_EVENT]
        self.usage_event = self._started + (b"" if ready == self._started else ready[-MAX_USAGE_EVENT:])

    def end(self) -> bytes:
        """The stream has ended: what it lacks; raises UpstreamTruncated if that is more than its last event."""
        if self.failed or self.done:
            return b""
        if not self._finished:
            raise UpstreamTruncated("The upstream's stream ended before it was complete.")
        return b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    def render_error(self, error: GatewayError) -> bytes:
        return render_messages_error_event(error)
