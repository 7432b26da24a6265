"""Streams of responses that are relayed: whether they are complete, and what they used."""

from gateway import sse
from gateway.conversation.dialects.responses import events
from gateway.conversation.dialects.responses.items import UNREADABLE_ITEM, decode_object
from gateway.conversation.dialects.responses.transcript import EchoedFields
from gateway.errors import GatewayError, UpstreamInvalid, UpstreamTruncated

MAX_USAGE_EVENT = 64 * 1024  # bytes of events that are kept for the usage they may report
# Events that tell of parts of the output, by their first lines; what else there is has to be looked at.
OF_OUTPUT = tuple(
    b"event: response." + kind for kind in (b"output_", b"content_part.", b"function_call_", b"reasoning_")
)


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
        if ready.startswith(events.PLAIN_START) and ready.count(b"\n\n") == ready.count(events.PLAIN_BORDER) + 1:
            self._last = ready
            return ready  # pieces of text and nothing else
        if b"data:" in ready:  # comments have no numbers
            self._last = ready
        ready = b"".join(
            [event if event.startswith(OF_OUTPUT) else self._look(event) for event in sse.split_events(ready)]
        )
        self.needs_driver = self.done or self.failed
        if sse.reports_usage(ready):
            self.usage_event = ready[-MAX_USAGE_EVENT:]
        return ready

    def _look(self, event: bytes) -> bytes:
        """Note what an event says about the end; restore what the client sent in the response that it carries."""
        kind = events.read_kind(event)
        self.done = self.done or kind in events.ENDS
        self.failed = self.failed or kind in (events.FAILED, events.ERROR)
        if self._echoed is None or kind not in (*events.STARTS, *events.ENDS):
            return event
        try:
            top = events.decode_event(sse.read_payload(event) or b"")
            response = self._echoed.restore(decode_object(top["response"]))
        except (*UNREADABLE_ITEM, KeyError):
            return event
        return events.encode_typed_event(kind, {**top, "response": response})

    def end(self) -> bytes:
        """The stream has ended; raises UpstreamTruncated if it is not complete."""
        if not (self.done or self.failed):
            raise UpstreamTruncated("The upstream's stream ended before it was complete.")
        return b""

    def render_error(self, error: GatewayError) -> bytes:
        return events.render_error_event(error, events.find_last_sequence(self._last) + 1)
