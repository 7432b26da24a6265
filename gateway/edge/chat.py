"""`POST /v1/chat/completions`: the client's side of an exchange."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.types import Receive, Scope, Send

from gateway.domain.exchange import Exchange, ExchangeStatus, Reply
from gateway.domain.principal import UNLIMITED
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.edge.access import AccessControl, Caller
from gateway.edge.errors import BrokenResponse, log_internal_error, render_error_event, send_error
from gateway.edge.health import SnapshotSource
from gateway.edge.limits import RateLimiter
from gateway.edge.meter import Meter
from gateway.edge.metrics import Metrics
from gateway.edge.recorder import CHAT, RequestOutcome, RequestRecorder
from gateway.edge.request import ClientDisconnected, read_body, require_json
from gateway.edge.response import select_client_headers, send_body
from gateway.errors import GatewayError, LoopLimit, MethodNotAllowed, UpstreamTruncated
from gateway.ids import make_id
from gateway.pipeline import Pipeline
from gateway.sse import DONE_EVENT


class ChatEndpoint:
    """Reads a request, runs it through the pipeline, sends the reply, and logs and counts it."""

    def __init__(
        self,
        access: AccessControl,
        pipeline: Pipeline,
        policies: SnapshotSource,
        limiter: RateLimiter,
        metrics: Metrics,
        recorder: RequestRecorder,
        max_body_bytes: int,
    ) -> None:
        self._access = access
        self._pipeline = pipeline
        self._policies = policies
        self._limiter = limiter
        self._metrics = metrics
        self._recorder = recorder
        self._max_body_bytes = max_body_bytes

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; of a caller who is not admitted only the outcome is recorded."""
        began = time.perf_counter()
        try:
            caller = self._access.admit(scope["headers"])
            if scope["method"] != "POST":
                raise MethodNotAllowed(f"{scope['path']} only accepts POST.")
        except Exception as error:
            failure = error if isinstance(error, GatewayError) else log_internal_error(error)
            seconds = time.perf_counter() - began
            self._recorder.record_outcome(RequestOutcome(CHAT, failure.status, failure.code, seconds=seconds))
            return await send_error(send, failure)
        principal, head = caller.principal, caller.head
        exchange = Exchange(make_id(), principal, EMPTY_SNAPSHOT, head.context, head.forward(caller.bearer))
        meter = None if principal.limits.tokens is None else Meter(exchange)
        status = 0
        self._metrics.in_flight += 1
        try:
            status = await self._answer(exchange, caller, receive, send, meter)
        except BaseException as error:
            if not exchange.complete:
                exchange.status = ExchangeStatus.ABORTED
            if not isinstance(error, ClientDisconnected):
                raise
        finally:
            self._metrics.in_flight -= 1
            seconds = time.perf_counter() - began
            if self._pipeline.receipts is not None:
                self._pipeline.receipts.finish(exchange, status, seconds)
            self._recorder.record_exchange(exchange, status, seconds)
            if meter is not None:
                self._limiter.charge(meter)

    async def _answer(
        self, exchange: Exchange, caller: Caller, receive: Receive, send: Send, meter: Meter | None
    ) -> int:
        try:
            exchange.snapshot = self._policies.get_snapshot(exchange.principal.workspace)
            reply = await self._reply(exchange, caller, receive, meter)
        except GatewayError as error:
            exchange.status, exchange.failure = classify_failure(error), error.code
            await send_error(send, error, build_context_headers(exchange))
            return error.status
        except ClientDisconnected:
            raise
        except Exception as error:
            failure = log_internal_error(error)
            exchange.status, exchange.failure = ExchangeStatus.ERROR, failure.code
            await send_error(send, failure, build_context_headers(exchange))
            return failure.status
        if reply.stream is None:
            if reply.status >= 400:
                exchange.status = ExchangeStatus.ERROR
            await send_body(send, reply.status, reply.body, build_reply_headers(reply, exchange))
            return reply.status
        try:
            await self._stream(exchange, reply, reply.stream, send)
        except Exception as error:  # only closing the connection can still tell the client
            log_internal_error(error)
            raise BrokenResponse from error
        finally:
            if reply.close is not None:
                await reply.close()
        return reply.status

    async def _reply(self, exchange: Exchange, caller: Caller, receive: Receive, meter: Meter | None) -> Reply:
        if exchange.principal.limits is not UNLIMITED:
            await self._limiter.admit(exchange.principal, exchange.degraded)
        require_json(caller.head)
        body = await read_body(caller.head, receive, self._max_body_bytes)
        prepared = await self._pipeline.prepare(exchange, body)
        reply = await self._pipeline.converse(exchange, prepared)
        return reply if meter is None else meter.watch(reply, len(body))

    async def _stream(self, exchange: Exchange, reply: Reply, stream: AsyncGenerator[bytes], send: Send) -> None:
        headers = build_reply_headers(reply, exchange)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        last = chunk = b""
        async with aclosing(stream) as chunks:
            try:
                async for chunk in chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            except GatewayError as error:
                exchange.status, exchange.failure = classify_failure(error), error.code
                last = render_error_event(error)
            except asyncio.CancelledError:
                # Many clients disconnect as soon as they have read [DONE]: they have everything.
                exchange.complete = chunk.endswith(DONE_EVENT)
                raise
        await send({"type": "http.response.body", "body": last})


def classify_failure(error: GatewayError) -> ExchangeStatus:
    if isinstance(error, LoopLimit):
        return ExchangeStatus.LOOP_LIMIT
    return ExchangeStatus.UPSTREAM_TRUNCATED if isinstance(error, UpstreamTruncated) else ExchangeStatus.ERROR


def build_context_headers(exchange: Exchange) -> list[tuple[bytes, bytes]]:
    """The `x-context-*` headers of every authenticated chat reply, including errors."""
    headers = [
        (b"x-context-receipt", exchange.id.encode()),
        (b"x-context-injected", b"%d" % exchange.injected),
        (b"x-context-tokens", b"%d" % exchange.tokens),
        (b"x-context-snapshot", exchange.snapshot.hash[:12].encode()),
    ]
    if exchange.degraded:
        headers.append((b"x-context-degraded", ",".join(sorted(exchange.degraded)).encode()))
    return headers


def build_reply_headers(reply: Reply, exchange: Exchange) -> list[tuple[bytes, bytes]]:
    return [*select_client_headers(reply.headers), *build_context_headers(exchange)]
