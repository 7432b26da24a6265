"""What a request would cost with the context that the gateway adds to it.

`POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`.
"""

import time

import msgspec
from msgspec import Raw

from gateway.conversation.dialect import Dialect
from gateway.conversation.dialects.messages.dialect import MESSAGES
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.domain.chat import PAUSE_BYTES
from gateway.domain.exchange import Exchange, Reply
from gateway.domain.principal import UNLIMITED
from gateway.domain.upstream import UpstreamRequest, refuses_key
from gateway.edge.access import AccessControl, Caller
from gateway.edge.chat import build_reply_headers
from gateway.edge.errors import log_internal_error, respond_with_error
from gateway.edge.limits import RateLimiter
from gateway.edge.recorder import RequestOutcome, RequestRecorder
from gateway.edge.request import ClientRequest, require_json
from gateway.edge.snapshot_source import SnapshotSource
from gateway.errors import GatewayError, MethodNotAllowed, UpstreamAuth
from gateway.ids import IdSource
from gateway.loop_turns import LoopTurns
from gateway.pipeline import Pipeline, PreparedRequest
from gateway.tokens import TokenCounter

ROUTE = "count_tokens"
JSON = {"content-type": "application/json"}
COUNTED_BYTES = 1024 * 1024  # beyond which the size of a body is all that is looked at
BYTES_PER_TOKEN = 4
MISSING = (404, 405, 501)  # what an upstream without such an endpoint says

_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class CountedRequests(msgspec.Struct, frozen=True):
    """How the requests of a dialect are counted."""

    dialect: Dialect
    upstream_path: str
    placed: frozenset[str]  # what the gateway may add to a request
    optional: bool = False  # upstreams of the dialect may lack the endpoint
    answer: dict[str, str] = msgspec.field(default_factory=dict)  # what an answer says besides the number
    max_bytes: int = 0  # of a body
    turns: LoopTurns | None = None  # for large ones


COUNTED = (
    CountedRequests(MESSAGES, "/messages/count_tokens", frozenset({"model", "messages", "system", "tools"})),
    CountedRequests(
        RESPONSES,
        "/responses/input_tokens",
        frozenset({"model", "input", "instructions", "tools"}),
        optional=True,
        answer={"object": "response.input_tokens"},
    ),
)


class CountTokensEndpoint:
    """Builds a request as if it were sent, and lets its upstream count it; others are estimated."""

    def __init__(
        self,
        counted: CountedRequests,
        access: AccessControl,
        pipeline: Pipeline,
        policies: SnapshotSource,
        limiter: RateLimiter,
        recorder: RequestRecorder,
        counter: TokenCounter,
    ) -> None:
        self.path, self._counted, self._dialect = f"/v1{counted.upstream_path}", counted, counted.dialect
        self._access, self._pipeline, self._policies = access, pipeline, policies
        self._limiter, self._recorder, self._counter = limiter, recorder, counter
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
            await respond_with_error(request, failure, (), self._dialect.render_error)
        self._recorder.record_outcome(RequestOutcome(ROUTE, status, code, seconds=time.perf_counter() - began))

    def _open_exchange(self, request: ClientRequest, caller: Caller) -> Exchange:
        snapshot = self._policies.get_snapshot(caller.principal.workspace)
        forwarded = caller.head.forward(caller.bearer, request.target.query)
        exchange = Exchange(self._ids.make(), caller.principal, snapshot, caller.head.context, forwarded)
        exchange.dialect = self._dialect.name
        return exchange

    async def _count(self, request: ClientRequest, caller: Caller, exchange: Exchange) -> Reply:
        principal, head = caller.principal, caller.head
        if principal.limits is not UNLIMITED:
            await self._limiter.admit(principal, exchange.degraded)
        require_json(head)
        body = await request.read_body(head, self._counted.max_bytes)
        if len(body) > PAUSE_BYTES and self._counted.turns is not None:
            await self._counted.turns.take(principal.workspace, len(body))
        prepared = await self._pipeline.prepare(exchange, body, self._dialect)
        if self._dialect.name in prepared.can.dialects:
            reply = await self._ask(exchange, prepared)
            if not (self._counted.optional and reply.status in MISSING):
                return reply
        return await self._estimate(principal.workspace, prepared)

    async def _ask(self, exchange: Exchange, prepared: PreparedRequest) -> Reply:
        """The count of an upstream that has such an endpoint."""
        asked, counted_names = prepared.request.fields.keys(), self._counted.placed
        fields = _decode(prepared.body)
        counted = {name: value for name, value in fields.items() if name in counted_names or name in asked}
        forwarded, path = exchange.forwarded, self._counted.upstream_path
        request = UpstreamRequest(
            path if not forwarded.query else f"{path}?{forwarded.query}",
            msgspec.json.encode(counted),
            forwarded.first,
            model=prepared.model,
            bearer=forwarded.bearer,
            dialect=self._dialect.name,
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
        return Reply(200, JSON, msgspec.json.encode({**self._counted.answer, "input_tokens": tokens}))
