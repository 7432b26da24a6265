"""Endpoints that are relayed unchanged: an allow-list, because a chat key must not reach the rest of an account."""

from collections.abc import Iterable

from starlette.types import Receive, Scope, Send

from gateway.conversation.dialects.openai_errors import render_openai_error_event
from gateway.domain.principal import UNLIMITED, Principal
from gateway.domain.upstream import (
    UpstreamAnswer,
    UpstreamReply,
    UpstreamRequest,
    is_event_stream,
    read_media_type,
    refuses_key,
)
from gateway.edge.access import Caller, OpenStreams
from gateway.edge.errors import BrokenResponse
from gateway.edge.limits import RateLimiter
from gateway.edge.meter import PassthroughMeter, ReadPiece
from gateway.edge.outcomes import get_outcome
from gateway.edge.passthrough_rights import ConfiguredPath, PassthroughRights, PathPatterns
from gateway.edge.request import read_body
from gateway.edge.response import select_client_headers
from gateway.edge.routed_model import read_model
from gateway.errors import (
    EndpointUnavailable,
    InvalidApiKey,
    InvalidRequest,
    MethodNotAllowed,
    UnknownEndpoint,
    UpstreamAuth,
    UpstreamError,
    UpstreamInvalid,
    UpstreamTruncated,
)
from gateway.settings import LimitSettings
from gateway.settings_sections import PassthroughSettings
from gateway.sse import EventBuffer
from gateway.upstreams.routes import Routes

ROUTE = "passthrough"
PREFIX = "/v1"
OPEN = ("/v1/embeddings", "/v1/completions", "/v1/moderations", "/v1/images/*", "/v1/audio/*")
NOT_BUILT = ("/v1/conversations", "/v1/realtime")

OPEN_METHODS = ("GET", "HEAD", "POST")
METHODS = (*OPEN_METHODS, "DELETE", "PATCH", "PUT")


class PassthroughPaths:
    """The paths that may be passed through; `further` are an operator's own, with or without `/v1`."""

    def __init__(self, further: Iterable[str | PassthroughSettings] = ()) -> None:
        self._open = PathPatterns(OPEN)
        self._further = [ConfiguredPath.from_settings(one) for one in further]

    def check(self, method: str, path: str) -> None:
        """Raise unless a normalised path may be passed through."""
        is_open = self._open.matches(path)
        if not is_open and self.find_configured(path) is None:
            if path in NOT_BUILT or path.startswith(tuple(known + "/" for known in NOT_BUILT)):
                raise EndpointUnavailable(f"{path} is not implemented. Use /v1/responses or /v1/chat/completions.")
            raise UnknownEndpoint(f"There is no endpoint {path}.")
        if is_open and method not in OPEN_METHODS:
            raise MethodNotAllowed(f"{path} only accepts GET and POST.", allow=", ".join(OPEN_METHODS))
        if method not in METHODS:
            raise MethodNotAllowed(f"{path} does not accept {method}.", allow=", ".join(sorted(METHODS)))

    def find_configured(self, path: str) -> ConfiguredPath | None:
        """What the configuration says about a path; of several entries the first counts."""
        return next((one for one in self._further if one.patterns.matches(path)), None)


class PassthroughEndpoint:
    """Relays a request to the upstream of its model, and the reply back: an ASGI app below the access middleware."""

    def __init__(
        self,
        routes: Routes,
        paths: PassthroughPaths,
        limiter: RateLimiter,
        limits: LimitSettings,
        rights: PassthroughRights,
        streams: OpenStreams,
    ) -> None:
        self._rights, self._streams = rights, streams
        self._routes = routes
        self._paths = paths
        self._limiter = limiter
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request whose path is normalized."""
        caller: Caller = scope["state"]["caller"]
        principal, outcome = caller.principal, get_outcome(scope)
        if principal.limits is not UNLIMITED:
            await self._limiter.admit(principal, set())
        self._paths.check(scope["method"], scope["path"])
        configured = self._paths.find_configured(scope["path"])
        self._rights.check_path(principal, scope["path"], configured)
        outcome.route = ROUTE
        body = await read_body(caller.head, receive, self._limits.body_bytes)
        request = build_request(scope, caller, body)
        self._rights.check_model(principal, request.model, caller.head.content_type, body)
        outcome.model = request.model
        upstream = None if configured is None else configured.upstream
        candidates = (
            self._routes.get_candidates(request.model) if upstream is None else self._routes.get_named(upstream)
        )
        if configured is None:
            await self._rights.check_objects(principal, scope["path"], body, candidates)
        answer = await self._routes.send(candidates, request)
        outcome.upstream = answer.upstream.name
        meter = None if principal.limits.tokens is None else build_meter(caller, request, answer.reply)
        try:
            check_reply(answer)
            await self._relay(principal, answer.reply, send, meter)
        finally:
            if meter is not None and answer.reply.status < 400:
                outcome.tokens = meter.count_spent()
                self._limiter.charge_tokens(principal, outcome.tokens)
            await answer.reply.close()

    async def _relay(
        self, principal: Principal, reply: UpstreamReply, send: Send, meter: PassthroughMeter | None
    ) -> None:
        read = reply.read if meter is None else meter.watch(reply.read)
        piece = await read()  # before the head is sent, so that an early failure can be reported as an error
        headers = select_client_headers(reply.headers)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        if is_event_stream(reply):
            await self._relay_events(principal, piece, read, send)
            return
        try:
            while piece:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = await read()
        except UpstreamError as error:
            raise BrokenResponse from error
        await send({"type": "http.response.body"})

    async def _relay_events(self, principal: Principal, piece: bytes, read: ReadPiece, send: Send) -> None:
        """Pass whole events only, so that an error event never lands inside another one."""
        events = EventBuffer()
        try:
            await self._streams.pass_on(principal, self._pass_events(events, piece, read, send))
            last = events.tail
            if last.strip() not in (b"", b"data: [DONE]"):
                raise UpstreamTruncated("The upstream's reply ended in the middle of an event.")
        except (UpstreamError, InvalidApiKey) as error:
            last = render_openai_error_event(error)
        await send({"type": "http.response.body", "body": last})

    async def _pass_events(self, events: EventBuffer, piece: bytes, read: ReadPiece, send: Send) -> None:
        while piece:
            if whole := events.take(piece):
                await send({"type": "http.response.body", "body": whole, "more_body": True})
            if len(events) > self._limits.reply_bytes:
                raise UpstreamInvalid("The upstream sent an event that is too large.")
            piece = await read()


def build_request(scope: Scope, caller: Caller, body: bytes) -> UpstreamRequest:
    """The call that goes upstream."""
    model = read_model(caller.head.content_type, body)
    if model.startswith("agent:"):
        raise InvalidRequest("Agents are available only at /v1/chat/completions; name a model here.", param="model")
    query = scope.get("query_string", b"").decode("latin-1")
    return UpstreamRequest(
        path=scope["path"].removeprefix(PREFIX) + (f"?{query}" if query else ""),
        body=body,
        headers=caller.head.forward(None).first,
        model=model,
        method=scope["method"],
        bearer=caller.bearer,
    )


def build_meter(caller: Caller, request: UpstreamRequest, reply: UpstreamReply) -> PassthroughMeter:
    """What counts the tokens of a request and its reply."""
    asked_type = caller.head.content_type.decode("latin-1")
    return PassthroughMeter(len(request.body), asked_type, read_media_type(reply))


def check_reply(answer: UpstreamAnswer) -> None:
    """Raise for a reply that must not reach the client."""
    upstream, reply = answer.upstream, answer.reply
    if refuses_key(upstream, reply):
        raise UpstreamAuth(f"Upstream {upstream.name!r} rejected the gateway's key (HTTP {reply.status}).")
    if read_media_type(reply) == "text/html":
        raise UpstreamInvalid(f"Upstream {upstream.name!r} returned an HTML page.")
