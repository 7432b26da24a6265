"""`/mcp` over streamable HTTP: an ASGI app below the access middleware, built on its first request."""

import logging

import msgspec
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from gateway.domain.exchange import Exchange
from gateway.domain.principal import UNLIMITED
from gateway.edge.access import Caller
from gateway.edge.limits import RateLimiter
from gateway.edge.mcp.call import McpCall
from gateway.edge.mcp.server import McpHandlers, build_server
from gateway.edge.metrics import Metrics
from gateway.edge.outcomes import get_outcome
from gateway.edge.request import read_body, require_json
from gateway.edge.snapshot_source import SnapshotSource
from gateway.errors import InvalidJson, MethodNotAllowed
from gateway.ids import IdSource
from gateway.pipeline import Pipeline

BODY_BYTES = 256 * 1024  # of one message: names, URIs and queries are short


class McpEndpoint:
    """Reads a message within limits and lets the package answer it."""

    def __init__(self, pipeline: Pipeline, policies: SnapshotSource, limiter: RateLimiter, metrics: Metrics) -> None:
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request
        self._policies = policies
        self._limiter = limiter
        self._metrics = metrics
        self._ids = IdSource()
        self._server = build_server(McpHandlers(pipeline, find_call, metrics.count_tool_run))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a manager lives no longer than that, so that nothing of a client is kept."""
        caller: Caller = scope["state"]["caller"]
        principal = caller.principal
        if principal.limits is not UNLIMITED:
            await self._limiter.admit_call(principal)
        if scope["method"] != "POST":
            raise MethodNotAllowed(
                "/mcp only accepts POST: there are no sessions, and nothing is sent unasked.", allow="POST"
            )
        require_json(caller.head)
        body = await read_body(caller.head, receive, BODY_BYTES)
        check_message(body)
        snapshot = self._policies.get_snapshot(principal.workspace)
        call = McpCall(Exchange(self._ids.make(), principal, snapshot, caller.head.context), get_outcome(scope))
        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True)
        state = {**scope["state"], "call": call}
        async with manager.run():
            await manager.handle_request({**scope, "state": state}, replay(body, receive), add_headers(call, send))
        if call.exchange.degraded:
            self._metrics.count_degraded(call.exchange.degraded)


def find_call(request: Request) -> McpCall:
    """What the endpoint knows about a request."""
    call: McpCall = request.state.call
    return call


def check_message(body: bytes) -> None:
    """Raise InvalidJson for what other parsers take differently: depth, huge numbers, half characters."""
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidJson(f"The body is not valid JSON: {error}") from error


def replay(body: bytes, receive: Receive) -> Receive:
    """`receive` once more for a body that was read."""
    unread = [body]

    async def receive_again() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return receive_again


def add_headers(call: McpCall, send: Send) -> Send:
    """`send` with what a reply says about itself."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange = call.exchange
            own = [(b"x-context-snapshot", exchange.snapshot.hash[:12].encode())]
            if exchange.degraded:
                own.append((b"x-context-degraded", ",".join(sorted(exchange.degraded)).encode()))
            message = {**message, "headers": [*message.get("headers", ()), *own]}
        await send(message)

    return send_with_headers
