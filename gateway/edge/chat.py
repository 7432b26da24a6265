"""A chat request from socket to socket: `POST /v1/chat/completions`, and its like in other dialects.

`serve` is called by the client's connection (`gateway/edge/connection.py`) as soon as a head is there, and tells the
walk of a request: admission, body, `prepare`, `converse`, response, account. What the upstream sends of a stream goes
from its connection through a filter (`pass_stream` in `gateway/conversation/relay.py`) to the client's.
"""

import time
from asyncio import sleep
from urllib.parse import quote

from gateway.domain.chat import PAUSE_BYTES
from gateway.domain.exchange import Exchange, ExchangeStatus, Reply
from gateway.domain.principal import UNLIMITED
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.edge.access import AccessControl, Caller
from gateway.edge.background_rules import OFF, BodyRules
from gateway.edge.errors import BrokenResponse, log_internal_error, respond_with_error
from gateway.edge.limits import RateLimiter
from gateway.edge.meter import Meter
from gateway.edge.metrics import Metrics
from gateway.edge.recorder import RequestOutcome, RequestRecorder
from gateway.edge.request import ClientRequest, require_json
from gateway.edge.response import select_client_headers
from gateway.edge.routed_model import set_model
from gateway.edge.snapshot_source import SnapshotSource
from gateway.errors import GatewayError, LoopLimit, MethodNotAllowed, MissingApiKey, UpstreamTruncated
from gateway.ids import IdSource
from gateway.pipeline import Pipeline


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
        bodies: BodyRules,
    ) -> None:
        self._access = access
        self._pipeline = pipeline
        self._policies = policies
        self._limiter = limiter
        self._metrics = metrics
        self._recorder = recorder
        self.path, self._dialect = bodies.dialect.path, bodies.dialect
        self._max_body_bytes = bodies.max_bytes
        self._background = bodies.background
        self._turns = bodies.turns
        self._ids = IdSource()

    async def serve(self, request: ClientRequest) -> None:
        """Answer one request; of a caller who is not admitted only the outcome is recorded."""
        began = time.perf_counter()
        try:
            try:
                caller = self._access.admit(request.headers, request.head)
            except MissingApiKey:
                caller = await self._access.admit_browser(request.headers, request.method)
            if request.method != "POST":
                raise MethodNotAllowed(f"{self.path} only accepts POST.", allow="POST")
        except Exception as error:
            failure = error if isinstance(error, GatewayError) else log_internal_error(error)
            seconds = time.perf_counter() - began
            self._recorder.record_outcome(
                RequestOutcome(self._dialect.name, failure.status, failure.code, seconds=seconds)
            )
            return await respond_with_error(request, failure, (), self._dialect.render_error)
        principal, head = caller.principal, caller.head
        exchange = Exchange(
            self._ids.make(), principal, EMPTY_SNAPSHOT, head.context, head.forward(caller.bearer, request.target.query)
        )
        exchange.dialect = self._dialect.name
        meter = None if principal.limits.tokens is None else Meter(exchange)
        status = 0
        self._metrics.in_flight += 1
        try:
            status = await self._answer(request, exchange, caller, meter)
        except BaseException as error:
            if isinstance(error, BrokenResponse):
                status = exchange.http_status
            elif not exchange.complete:
                exchange.status = ExchangeStatus.ABORTED
            raise
        finally:
            self._metrics.in_flight -= 1
            seconds = time.perf_counter() - began
            if meter is not None:
                self._limiter.charge(meter)
            self._recorder.record_exchange(exchange, status, seconds)

    async def _answer(self, request: ClientRequest, exchange: Exchange, caller: Caller, meter: Meter | None) -> int:
        """From the body to the end of the response; returns its status."""
        try:
            reply = await self._reply(request, exchange, caller, meter)
        except GatewayError as error:
            exchange.status, exchange.failure = classify_failure(error), error.code
            await respond_with_error(request, error, build_context_headers(exchange), self._dialect.render_error)
            return error.status
        except Exception as error:
            failure = log_internal_error(error)
            exchange.status, exchange.failure = ExchangeStatus.ERROR, failure.code
            await respond_with_error(request, failure, build_context_headers(exchange), self._dialect.render_error)
            return failure.status
        headers = build_reply_headers(reply, exchange)
        if reply.stream is None:
            if reply.status >= 400:
                exchange.status = ExchangeStatus.ERROR
            await request.respond(reply.status, headers, reply.body)
            return reply.status
        try:
            request.start_stream(reply.status, headers)
            request.end(await self._stream(request, exchange, reply))
        except Exception as error:  # only closing the connection can still tell the client
            exchange.status, exchange.failure = ExchangeStatus.ERROR, log_internal_error(error).code
            exchange.http_status = reply.status
            raise BrokenResponse from error
        finally:
            if reply.close is not None:
                await reply.close()
        return reply.status

    async def _reply(self, request: ClientRequest, exchange: Exchange, caller: Caller, meter: Meter | None) -> Reply:
        """The reply of the pipeline, as far as it has come when the client's head can be sent."""
        exchange.snapshot = self._policies.get_snapshot(exchange.principal.workspace)
        if self._policies.store_error is not None:
            exchange.degraded.add("store")
        if exchange.principal.limits is not UNLIMITED:
            await self._limiter.admit(exchange.principal, exchange.degraded)
        require_json(caller.head)
        body = await request.read_body(caller.head, self._max_body_bytes)
        if request.target.model is not None:
            body = set_model(body, request.target.model)
        if self._background is not None and self._background.add_inject(request.headers, caller.head.context, body):
            exchange.context_headers = (*exchange.context_headers, OFF)
        if meter is not None:
            meter.asked = len(body)
        large = len(body) > PAUSE_BYTES
        if large:
            await self._turns.take(exchange.principal.workspace, len(body))
        elif self._turns.precedence.current:
            await self._turns.precedence.let_pass(exchange.principal.workspace)
        prepared = await self._pipeline.prepare(exchange, body, self._dialect)
        if large:
            await sleep(0)
        reply = await self._pipeline.converse(exchange, prepared)
        return reply if meter is None else meter.watch(reply)

    async def _stream(self, request: ClientRequest, exchange: Exchange, reply: Reply) -> bytes:
        """Pass a stream on to the client; returns its last event if that is an error."""
        assert reply.stream is not None
        assert reply.render_failure is not None
        try:
            await self._access.streams.pass_on(exchange.principal, reply.stream(request))
        except GatewayError as error:
            exchange.status, exchange.failure = classify_failure(error), error.code
            return reply.render_failure(error)
        return b""


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
    if exchange.scope is not None and exchange.scope.node is not None:
        headers.append((b"x-context-content", quote(exchange.scope.node.path).encode()))
    if exchange.suggested is not None:
        headers.append((b"x-context-suggested-content", quote(exchange.suggested).encode()))
    if exchange.degraded:
        headers.append((b"x-context-degraded", ",".join(sorted(exchange.degraded)).encode()))
    return headers


def build_reply_headers(reply: Reply, exchange: Exchange) -> list[tuple[bytes, bytes]]:
    return [*select_client_headers(reply.headers), *build_context_headers(exchange)]
