"""`POST /v1/messages/count_tokens`: what a request would cost with the context that the gateway adds to it."""

import time

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.messages.dialect import MESSAGES
from gateway.domain.exchange import Exchange, Reply
from gateway.domain.principal import UNLIMITED
from gateway.domain.upstream import UpstreamRequest, intersect_capabilities, refuses_key
from gateway.edge.access import AccessControl, Caller
from gateway.edge.chat import build_reply_headers
from gateway.edge.errors import log_internal_error, respond_with_error
from gateway.edge.health import SnapshotSource
from gateway.edge.limits import RateLimiter
from gateway.edge.recorder import RequestOutcome, RequestRecorder
from gateway.edge.request import ClientRequest, require_json
from gateway.errors import GatewayError, MethodNotAllowed, UpstreamAuth
from gateway.ids import IdSource
from gateway.pipeline import Pipeline, PreparedRequest
from gateway.tokens import TokenCounter

ROUTE = "count_tokens"
UPSTREAM_PATH = "/messages/count_tokens"
PLACED = frozenset({"model", "messages", "system", "tools"})  # what the gateway may add to a request
COUNTED_BYTES = 1024 * 1024  # beyond which the size of a body is all that is looked at
BYTES_PER_TOKEN = 4

_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class CountTokensEndpoint:
    """Builds a request as if it were sent, and lets its upstream count it; others are estimated."""

    path = "/v1/messages/count_tokens"

    def __init__(
        self,
        access: AccessControl,
        pipeline: Pipeline,
        policies: SnapshotSource,
        limiter: RateLimiter,
        recorder: RequestRecorder,
        counter: TokenCounter,
        max_body_bytes: int,
    ) -> None:
        self._access, self._pipeline, self._policies = access, pipeline, policies
        self._limiter, self._recorder, self._counter = limiter, recorder, counter
        self._max_body_bytes = max_body_bytes
        self._ids = IdSource()

    async def serve(self, request: ClientRequest) -> None:
        began = time.perf_counter()
        code: str | None = None
        try:
            caller = self._access.admit(request.headers)
            if request.method != "POST":
                raise MethodNotAllowed(f"{self.path} only accepts POST.", allow="POST")
            exchange = self._open_exchange(request, caller)
            reply = await self._count(request, caller, exchange)
            status = reply.status
            await request.respond(status, build_reply_headers(reply, exchange), reply.body)
        except Exception as error:
            failure = error if isinstance(error, GatewayError) else log_internal_error(error)
            status, code = failure.status, failure.code
            await respond_with_error(request, failure, (), MESSAGES.render_error)
        self._recorder.record_outcome(RequestOutcome(ROUTE, status, code, seconds=time.perf_counter() - began))

    def _open_exchange(self, request: ClientRequest, caller: Caller) -> Exchange:
        snapshot = self._policies.get_snapshot(caller.principal.workspace)
        forwarded = caller.head.forward(caller.bearer, request.target.query)
        exchange = Exchange(self._ids.make(), caller.principal, snapshot, caller.head.context, forwarded)
        exchange.dialect = MESSAGES.name
        return exchange

    async def _count(self, request: ClientRequest, caller: Caller, exchange: Exchange) -> Reply:
        principal, head = caller.principal, caller.head
        if principal.limits is not UNLIMITED:
            await self._limiter.admit(principal, exchange.degraded)
        require_json(head)
        body = await request.read_body(head, self._max_body_bytes)
        prepared = await self._pipeline.prepare(exchange, body, MESSAGES)
        if MESSAGES.name in intersect_capabilities(prepared.upstreams).dialects:
            return await self._ask(exchange, prepared)
        return await self._estimate(principal.workspace, prepared)

    async def _ask(self, exchange: Exchange, prepared: PreparedRequest) -> Reply:
        """The count of an upstream that has such an endpoint."""
        asked = prepared.request.fields.keys()
        fields = _decode(prepared.body)
        counted = {name: value for name, value in fields.items() if name in PLACED or name in asked}
        forwarded = exchange.forwarded
        request = UpstreamRequest(
            UPSTREAM_PATH if not forwarded.query else f"{UPSTREAM_PATH}?{forwarded.query}",
            msgspec.json.encode(counted),
            forwarded.first,
            model=prepared.model,
            bearer=forwarded.bearer,
            dialect=MESSAGES.name,
        )
        answer = await self._pipeline.routes.send(prepared.upstreams, request)
        try:
            if refuses_key(answer.upstream, answer.reply):
                raise UpstreamAuth(f"Upstream {answer.upstream.name!r} refused the gateway's credentials.")
            return Reply(answer.reply.status, answer.reply.headers, await answer.reply.read_all())
        finally:
            await answer.reply.close()

    async def _estimate(self, workspace: str, prepared: PreparedRequest) -> Reply:
        """What the gateway makes of it, which is rather too much than too little."""
        body, model = prepared.body, prepared.model
        if len(body) > COUNTED_BYTES:
            tokens = len(body) // BYTES_PER_TOKEN
        else:
            tokens = await self._pipeline.builder.threads.run(workspace, self._counter.count, body.decode(), model)
        return Reply(200, {"content-type": "application/json"}, msgspec.json.encode({"input_tokens": tokens}))
