"""Checking replies, and passing streams on to the client in complete events."""

import asyncio
from typing import Protocol

import msgspec

from gateway.conversation.dialect import RelayView
from gateway.domain.exchange import ClientWriter, Exchange, ExchangeStatus
from gateway.domain.upstream import Upstream, UpstreamReply, is_event_stream, is_json_reply, refuses_key
from gateway.errors import UpstreamAuth, UpstreamError, UpstreamInvalid

AFTER_ERROR_SECONDS = 1.0  # that an upstream gets to close after its own error


def check_reply(upstream: Upstream, reply: UpstreamReply) -> None:
    """Refuse what must not reach a client as if it were an answer."""
    if reply.status >= 400 and refuses_key(upstream, reply):
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


class StreamPassage(msgspec.Struct):
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


async def relay_events(
    reply: UpstreamReply, first: bytes, relay: RelayView, exchange: Exchange, after_error: float, writer: ClientWriter
) -> None:
    """The stream as it comes, in complete events; raises UpstreamTruncated if it ends before it is complete."""
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
        last = relay.end()
        exchange.complete = not relay.failed
        writer.end(last)
    finally:
        exchange.usage_event = relay.usage_event
        await reply.close()


async def pass_rest(
    reply: UpstreamReply, relay: RelayView, writer: ClientWriter, pending: bytes, seconds: float
) -> None:
    """What still comes after the upstream's own error."""
    await send_bytes(writer, pending)
    while chunk := await read_after_error(reply, seconds):
        await send_bytes(writer, relay.feed(chunk))
