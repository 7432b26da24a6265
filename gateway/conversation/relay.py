"""Checking replies, and relaying streams in complete events."""

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from gateway import sse
from gateway.domain.exchange import Exchange, ExchangeStatus
from gateway.domain.upstream import Upstream, UpstreamReply, is_event_stream, is_json_reply
from gateway.errors import UpstreamAuth, UpstreamError, UpstreamInvalid, UpstreamTruncated

MAX_USAGE_EVENT = 64 * 1024  # bytes of events that are kept for the usage they may report
AFTER_DONE_SECONDS = 1.0  # that an upstream gets to close after [DONE]

_FINISH = re.compile(rb'"finish_reason"\s*:\s*"')
_DONE = re.compile(rb"(?:^|\n)data: ?\[DONE\]")


class _ErrorEvent(msgspec.Struct):
    error: Any = None


_decode = msgspec.json.Decoder(_ErrorEvent).decode


def check_reply(upstream: Upstream, reply: UpstreamReply) -> None:
    """Refuse what must not reach a client as if it were an answer."""
    if reply.status in (401, 403) and not upstream.passes_bearer:
        raise UpstreamAuth(f"Upstream {upstream.name!r} refused the gateway's credentials (HTTP {reply.status}).")
    if not (is_json_reply(reply) or is_event_stream(reply)):
        raise UpstreamInvalid(f"Upstream {upstream.name!r} sent neither JSON nor an event stream.")


async def read_after_done(reply: UpstreamReply, seconds: float) -> bytes:
    """What comes after [DONE]; an upstream that hangs or breaks then takes nothing away from the client."""
    try:
        async with asyncio.timeout(seconds):
            return await reply.read()
    except (TimeoutError, UpstreamError):
        return b""


async def relay_events(
    reply: UpstreamReply, first: bytes, exchange: Exchange, after_done: float = AFTER_DONE_SECONDS
) -> AsyncGenerator[bytes]:
    """The stream as it comes, in complete events; raises UpstreamTruncated if it ends before it is complete.

    A literal `"finish_reason":"` or a line `data: [DONE]` cannot stand inside a JSON string, where quotes and newlines
    are escaped, so looking for their bytes is enough.
    """
    events, chunk = sse.EventBuffer(), first
    finished = done = failed = False
    try:
        while chunk:
            ready = events.take(chunk)
            if len(events) > sse.MAX_EVENT_BYTES:
                raise UpstreamInvalid("The upstream sent an event that never ends.")
            if ready:
                done = done or is_done(ready)
                finished = finished or done or _FINISH.search(ready) is not None
                failed = failed or contains_error(ready)
                if b'"usage"' in ready:
                    exchange.usage_event = ready[-MAX_USAGE_EVENT:]
                yield ready
            chunk = await (read_after_done(reply, after_done) if done or failed else reply.read())
        if failed:
            exchange.status = ExchangeStatus.ERROR
        elif not done:
            if not finished and not is_done(events.tail):
                raise UpstreamTruncated("The upstream's stream ended before it was complete.")
            yield sse.DONE_EVENT
    finally:
        await reply.close()


def is_done(data: bytes) -> bool:
    return b"[DONE]" in data and _DONE.search(data) is not None


def contains_error(data: bytes) -> bool:
    """Whether one of these events is the upstream's own error."""
    return b'"error"' in data and any(map(is_error, sse.split_events(data)))


def is_error(event: bytes) -> bool:
    try:
        return _decode(sse.read_payload(event) or b"{}").error is not None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
