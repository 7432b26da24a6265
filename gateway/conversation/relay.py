"""Checking replies, and passing streams on to the client in complete events."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from gateway import sse
from gateway.domain.exchange import ClientWriter, Exchange, ExchangeStatus
from gateway.domain.upstream import Upstream, UpstreamReply, is_event_stream, is_json_reply, refuses_key
from gateway.errors import UpstreamAuth, UpstreamError, UpstreamInvalid, UpstreamTruncated

MAX_USAGE_EVENT = 64 * 1024  # bytes of events that are kept for the usage they may report
AFTER_ERROR_SECONDS = 1.0  # that an upstream gets to close after its own error
DONE_STARTS = (b"data: ", b"data:")  # of the line that says [DONE]
LONGEST_START = max(map(len, DONE_STARTS))
LATER_DONE_STARTS = tuple(b"\n" + start for start in DONE_STARTS)

_FINISH = re.compile(rb'"finish_reason"\s*:\s*"')


class _ErrorEvent(msgspec.Struct):
    error: Any = None


_decode = msgspec.json.Decoder(_ErrorEvent).decode


def check_reply(upstream: Upstream, reply: UpstreamReply) -> None:
    """Refuse what must not reach a client as if it were an answer."""
    if refuses_key(upstream, reply):
        raise UpstreamAuth(f"Upstream {upstream.name!r} refused the gateway's credentials (HTTP {reply.status}).")
    if not (is_json_reply(reply) or is_event_stream(reply)):
        raise UpstreamInvalid(f"Upstream {upstream.name!r} sent neither JSON nor an event stream.")


class EventFilter(Protocol):
    """Decides what the client sees of a stream, without I/O."""

    @property
    def needs_driver(self) -> bool:
        """Whether there is more to do than to pass bytes on: the end is near, or the client may have to wait."""
        ...

    def feed(self, chunk: bytes) -> bytes:
        """Take bytes of the upstream's stream; return what the client may see of them now."""
        ...


@dataclass(slots=True)
class StreamPassage:
    """One upstream body on its way to the client.

    What arrives goes through the filter to the client's connection in the same call, however much it is; the task that
    waits in `run` wakes at the end, when the filter needs its driver, or when the client is slower than the upstream.
    """

    reply: UpstreamReply
    events: EventFilter
    writer: ClientWriter
    pending: bytes = b""  # what the driver has to send: it may add something, and every write costs

    async def run(self) -> bool:
        """Pass the body on until it ends (True) or the filter needs its driver (False)."""
        if self.events.needs_driver:
            return False
        while not await self.reply.forward(self._take):
            if self.events.needs_driver:
                return False
            await self.writer.drain()
        return True

    def _take(self, chunk: bytes) -> bool:
        shown = self.events.feed(chunk)
        if self.events.needs_driver:
            self.pending = shown
            return False
        return not shown or self.writer.write(shown)


async def send_bytes(writer: ClientWriter, data: bytes) -> None:
    """Write, and wait until there is room for more."""
    if not writer.write(data):
        await writer.drain()


async def read_after_error(reply: UpstreamReply, seconds: float) -> bytes:
    """What comes after the upstream's own error; one that hangs or breaks then takes nothing away from the client."""
    try:
        async with asyncio.timeout(seconds):
            return await reply.read()
    except (TimeoutError, UpstreamError):
        return b""


class EventRelay:
    """A stream that passes as it comes: how far it got, found without reading it.

    A literal `"finish_reason":"` or a line `data: [DONE]` cannot stand inside a JSON string, where quotes and newlines
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


async def relay_events(
    reply: UpstreamReply, first: bytes, exchange: Exchange, after_error: float, writer: ClientWriter
) -> None:
    """The stream as it comes, in complete events; raises UpstreamTruncated if it ends before it is complete."""
    relay = EventRelay()
    try:
        passage = StreamPassage(reply, relay, writer, relay.feed(first))
        if not relay.needs_driver:
            await send_bytes(writer, passage.pending)
            passage.pending = b""
            await passage.run()
        if relay.failed:
            exchange.status = ExchangeStatus.ERROR
        if relay.done:
            exchange.complete = True
            writer.end(passage.pending)
            await reply.finish()
            return
        if relay.failed:
            await pass_rest(reply, relay, writer, passage.pending, after_error)
        writer.end(relay.end())
    finally:
        exchange.usage_event = relay.usage_event
        await reply.close()


async def pass_rest(
    reply: UpstreamReply, relay: EventRelay, writer: ClientWriter, pending: bytes, seconds: float
) -> None:
    """What still comes after the upstream's own error."""
    await send_bytes(writer, pending)
    while chunk := await read_after_error(reply, seconds):
        await send_bytes(writer, relay.feed(chunk))


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
