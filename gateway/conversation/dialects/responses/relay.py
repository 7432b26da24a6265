"""Streams of responses that are relayed: whether they are complete, and what they used."""

import re

from gateway import sse
from gateway.conversation.dialects.responses import events
from gateway.conversation.dialects.responses.echoed import EchoedFields
from gateway.errors import GatewayError, UpstreamInvalid, UpstreamTruncated

MAX_USAGE_EVENT = 64 * 1024  # bytes of events that are kept for the usage they may report
# Events that tell of parts of the output, by their first lines; what else there is has to be looked at.
OUTPUT_KINDS = (b"output_", b"content_part.", b"function_call_", b"reasoning_")
OF_OUTPUT = tuple(events.NAMED + kind for kind in OUTPUT_KINDS)

# The end of an event that one of another kind follows.
_BEFORE_OTHER = re.compile(rb"\n\n(?!%b(?:%b)|\Z)" % (re.escape(events.NAMED), b"|".join(map(re.escape, OUTPUT_KINDS))))


class ResponsesRelayView:
    """A stream that passes as it comes; if we changed the request, without our changes where it is repeated."""

    __slots__ = ("_echoed", "_events", "_last", "done", "failed", "needs_driver", "usage_event")

    def __init__(self, echoed: EchoedFields | None) -> None:
        self._events = sse.EventBuffer()
        self._echoed = echoed
        self._last = b""  # the latest events
        self.done = False  # the response has ended
        self.failed = False  # the upstream's own error has come
        self.needs_driver = False
        self.usage_event = b""  # the last events that may report the usage

    def feed(self, chunk: bytes) -> bytes:
        ready = self._events.take(chunk)
        if not ready:
            if len(self._events) > sse.MAX_EVENT_BYTES:
                raise UpstreamInvalid("The upstream sent an event that never ends.")
            return b""
        if b"data:" in ready:  # comments have no numbers
            self._last = ready
        if b"\r" in ready:
            return b"".join([self._look(event) for event in sse.split_events(ready)])
        start = 0 if not ready.startswith(OF_OUTPUT) else find_other(ready, 0)
        return ready if start is None else self._look_from(ready, start)

    def _look_from(self, ready: bytes, start: int | None) -> bytes:
        """Look at the event that begins at `start`, and at all behind it that do not tell of parts of the output."""
        shown: list[bytes] = []
        passed = 0
        while start is not None:
            at = ready.find(events.BLANK_LINE, start)
            end = len(ready) if at < 0 else at + len(events.BLANK_LINE)  # there may be line feeds in excess
            event = ready[start:end]
            if (seen := self._look(event)) is not event:
                shown += ready[passed:start], seen
                passed = end
            start = find_other(ready, end - len(events.BLANK_LINE))
        return b"".join([*shown, ready[passed:]]) if shown else ready

    def _look(self, event: bytes) -> bytes:
        """Note what an event says about the end; restore what the client sent in the response that it carries."""
        kind = events.read_kind(event)
        if kind in events.ENDS:
            self.done = self.needs_driver = True
        if kind in (events.FAILED, events.ERROR):
            self.failed = self.needs_driver = True
        if self._echoed is not None and kind in events.CARRYING:
            event = self._echoed.restore_event(kind, event)
        if kind not in events.STARTS and sse.reports_usage(event):
            self.usage_event = event[-MAX_USAGE_EVENT:]
        return event

    def end(self) -> bytes:
        """The stream has ended; raises UpstreamTruncated if it is not complete."""
        if not (self.done or self.failed):
            raise UpstreamTruncated("The upstream's stream ended before it was complete.")
        return b""

    def render_error(self, error: GatewayError) -> bytes:
        return events.render_error_event(error, events.find_last_sequence(self._last) + 1)


def find_other(data: bytes, end: int) -> int | None:
    """Where the next event begins that does not tell of a part of the output; `end`: from the end of an event on."""
    found = _BEFORE_OTHER.search(data, end)
    return None if found is None else found.end()
