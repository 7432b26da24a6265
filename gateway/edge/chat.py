"""`POST /v1/chat/completions`: the client's side of an exchange."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.types import Receive, Scope, Send

from gateway.domain.exchange import Exchange, ForwardedHeaders, Reply
from gateway.domain.principal import UNLIMITED, Principal
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.edge.errors import error_event, internal, send_error
from gateway.edge.forwarding import downward, upward
from gateway.edge.health import SnapshotSource
from gateway.edge.limits import Limiter
from gateway.edge.logs import ExchangeLog
from gateway.edge.meter import Meter
from gateway.edge.metrics import Metrics
from gateway.edge.requests import ClientGone, headers_of, read_body, require_json
from gateway.edge.respond import send_body
from gateway.errors import GatewayError, LoopLimit, UpstreamTruncated
from gateway.pipeline import Pipeline
from gateway.settings import LimitSettings
from gateway.sse import DONE_EVENT

ROUTE = "chat"


class Chat:
    """Reads a request, has it walked through the pipeline, writes the reply and its account."""

    def __init__(
        self, pipeline: Pipeline, limits: LimitSettings, limiter: Limiter, metrics: Metrics, log: ExchangeLog | None
    ) -> None:
        self._pipeline = pipeline
        self._limits = limits
        self._limiter = limiter
        self._metrics = metrics
        self._log = log

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, caller: tuple[Principal, str | None], policies: SnapshotSource
    ) -> None:
        """Answer one chat request; `caller` is who asks, with the bearer that is its own."""
        began = time.perf_counter()
        principal, bearer = caller
        headers = scope["headers"]
        up = upward(headers)
        exchange = Exchange(new_id(), principal, EMPTY_SNAPSHOT, headers, ForwardedHeaders(up.first, up.later, bearer))
        meter = None if principal.limits is UNLIMITED else Meter(exchange)
        status = 0
        try:
            status = await self._answer(exchange, scope, receive, send, policies, meter)
        except BaseException as gone:
            if not exchange.complete:
                exchange.status = "aborted"
            if not isinstance(gone, ClientGone):
                raise
        finally:
            self._account(exchange, status, time.perf_counter() - began)
            if meter is not None:
                await self._limiter.settle(meter)

    async def _answer(
        self,
        exchange: Exchange,
        scope: Scope,
        receive: Receive,
        send: Send,
        policies: SnapshotSource,
        meter: Meter | None,
    ) -> int:
        try:
            exchange.snapshot = policies.of(exchange.principal.workspace)
            reply = await self._reply(exchange, scope, receive, meter)
        except GatewayError as error:
            exchange.status = failed_as(error)
            await send_error(send, error, context_headers(exchange))
            return error.status
        except ClientGone:
            raise
        except Exception as error:
            exchange.status = "error"
            told = internal(error)
            await send_error(send, told, context_headers(exchange))
            return told.status
        if reply.stream is None:
            if reply.status >= 400:
                exchange.status = "error"
            await send_body(send, reply.status, reply.body, head(reply, exchange))
        else:
            try:
                await self._stream(exchange, reply, reply.stream, send)
            finally:
                if reply.close is not None:
                    await reply.close()
        return reply.status

    async def _reply(self, exchange: Exchange, scope: Scope, receive: Receive, meter: Meter | None) -> Reply:
        if meter is not None:
            await self._limiter.admit(exchange.principal, exchange.degraded)
        require_json(headers_of(scope))
        body = await read_body(scope, receive, self._limits)
        prepared = await self._pipeline.prepare(exchange, body)
        reply = await self._pipeline.converse(exchange, prepared)
        return reply if meter is None else meter.over(reply, len(body))

    async def _stream(self, exchange: Exchange, reply: Reply, stream: AsyncGenerator[bytes], send: Send) -> None:
        await send({"type": "http.response.start", "status": reply.status, "headers": head(reply, exchange)})
        last = chunk = b""
        async with aclosing(stream) as chunks:
            try:
                async for chunk in chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            except GatewayError as error:
                exchange.status = failed_as(error)
                last = error_event(error)
            except asyncio.CancelledError:
                # Many clients hang up as soon as they have read [DONE]: they have everything.
                exchange.complete = chunk.endswith(DONE_EVENT)
                raise
        await send({"type": "http.response.body", "body": last})

    def _account(self, exchange: Exchange, status: int, seconds: float) -> None:
        """What is counted and logged of an exchange; never a word of what was said."""
        metrics = self._metrics
        metrics.request(ROUTE, status, seconds)
        metrics.placed(exchange.injected, exchange.tokens)
        for upstream, answered in exchange.replies:
            metrics.turn(upstream, answered)
        for name in exchange.tools_run:
            metrics.tool(name)
        if exchange.degraded:
            metrics.degraded(exchange.degraded)
        if self._log is not None:
            self._log.record(account_of(exchange, status, seconds))


def new_id() -> str:
    """A receipt's id: in the order of time, not to be guessed."""
    return f"{time.time_ns() // 1000:014x}{os.urandom(6).hex()}"


def failed_as(error: GatewayError) -> str:
    if isinstance(error, LoopLimit):
        return "loop_limit"
    return "upstream_truncated" if isinstance(error, UpstreamTruncated) else "error"


def context_headers(exchange: Exchange) -> list[tuple[bytes, bytes]]:
    """What every authenticated chat reply says about itself, errors too."""
    headers = [
        (b"x-context-receipt", exchange.id.encode()),
        (b"x-context-injected", b"%d" % exchange.injected),
        (b"x-context-tokens", b"%d" % exchange.tokens),
        (b"x-context-snapshot", exchange.snapshot.hash[:12].encode()),
    ]
    if exchange.degraded:
        headers.append((b"x-context-degraded", ",".join(sorted(exchange.degraded)).encode()))
    return headers


def head(reply: Reply, exchange: Exchange) -> list[tuple[bytes, bytes]]:
    return [*downward(reply.headers), *context_headers(exchange)]


def account_of(exchange: Exchange, status: int, seconds: float) -> dict[str, object]:
    return {
        "time": time.time(),
        "event": "exchange",
        "receipt": exchange.id,
        "workspace": exchange.principal.workspace,
        "principal": exchange.principal.name,
        "agent": exchange.agent,
        "model": exchange.model,
        "upstream": exchange.upstream,
        "status": exchange.status,
        "http_status": status,
        "seconds": round(seconds, 6),
        "snapshot": exchange.snapshot.hash[:12],
        "injected": exchange.injected,
        "tokens": exchange.tokens,
        "turns": exchange.turns,
        "tools_run": exchange.tools_run,
        "usage": exchange.usage,
        "degraded": sorted(exchange.degraded),
    }
