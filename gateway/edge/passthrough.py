"""Endpoints that are relayed as they are: an allow-list, because a chat key must not reach the rest of an account."""

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from starlette.types import Receive, Scope, Send

from gateway.conversation.relay import is_events, media_type
from gateway.domain.upstream import Upstream, UpstreamReply, UpstreamRequest
from gateway.edge.errors import BrokenResponse, error_event
from gateway.edge.forwarding import downward, upward
from gateway.edge.requests import headers_of, read_body
from gateway.edge.routed_model import routed_model
from gateway.errors import (
    EndpointUnavailable,
    InvalidRequest,
    MethodNotAllowed,
    UnknownEndpoint,
    UpstreamAuth,
    UpstreamError,
    UpstreamInvalid,
    UpstreamTruncated,
)
from gateway.settings import LimitSettings
from gateway.sse import complete

PREFIX = "/v1"
OPEN = ("/v1/embeddings", "/v1/completions", "/v1/moderations", "/v1/images/*", "/v1/audio/*")
NOT_BUILT = ("/v1/responses", "/v1/messages")

# What a `*` stands for. Other characters, `;` and escapes among them, mean different things to different servers.
_TAIL = re.compile(r"[A-Za-z0-9._~/-]+")


class Routing(Protocol):
    """Finds and calls the upstream for a model."""

    def candidates(self, model: str) -> tuple[Upstream, ...]:
        """The upstreams that may serve a model, best first."""
        ...

    async def send(self, candidates: Sequence[Upstream], request: UpstreamRequest) -> tuple[Upstream, UpstreamReply]:
        """The first usable reply and who gave it."""
        ...


class PassthroughPaths:
    """The paths that may be passed through; `further` are an operator's own, with or without `/v1`."""

    def __init__(self, further: Iterable[str] = ()) -> None:
        paths = [*OPEN, *(f"{PREFIX}/{path.strip('/').removeprefix('v1/')}" for path in further)]
        self._exact = frozenset(path for path in paths if not path.endswith("/*"))
        self._below = tuple(path.removesuffix("*") for path in paths if path.endswith("/*"))

    def check(self, method: str, path: str) -> None:
        """Raise unless a normalised path may be passed through."""
        if not self._names(path):
            if path in NOT_BUILT or path.startswith(tuple(known + "/" for known in NOT_BUILT)):
                raise EndpointUnavailable(f"{path} is not available yet. Use /v1/chat/completions.")
            raise UnknownEndpoint(f"There is no endpoint {path}.")
        if method not in ("GET", "POST"):
            raise MethodNotAllowed(f"{path} takes GET and POST only.")

    def _names(self, path: str) -> bool:
        return path in self._exact or any(
            path.startswith(prefix) and _TAIL.fullmatch(path, len(prefix)) is not None for prefix in self._below
        )


class PassThrough:
    """Relays a request to the upstream of its model, and the reply back."""

    def __init__(self, routes: Routing, allowed: PassthroughPaths, limits: LimitSettings) -> None:
        self._routes = routes
        self._allowed = allowed
        self._limits = limits

    async def serve(self, scope: Scope, receive: Receive, send: Send, path: str, bearer: str | None) -> None:
        """Answer one request; `path` is normalised, `bearer` the client's own."""
        self._allowed.check(scope["method"], path)
        body = await read_body(scope, receive, self._limits)
        request = _outgoing(scope, path, body, bearer)
        upstream, reply = await self._routes.send(self._routes.candidates(request.model), request)
        try:
            _check(upstream, reply)
            await self._relay(reply, send)
        finally:
            await reply.close()

    async def _relay(self, reply: UpstreamReply, send: Send) -> None:
        piece = await reply.read()  # before the head is sent, so that an early failure is still an error of its own
        await send({"type": "http.response.start", "status": reply.status, "headers": downward(reply.headers)})
        if is_events(reply):
            await self._relay_events(piece, reply, send)
            return
        try:
            while piece:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = await reply.read()
        except UpstreamError as error:
            raise BrokenResponse from error
        await send({"type": "http.response.body"})

    async def _relay_events(self, piece: bytes, reply: UpstreamReply, send: Send) -> None:
        """Pass whole events only, so that an error event never lands inside another one."""
        held = b""
        try:
            while piece:
                held += piece
                end = complete(held)
                if end:
                    await send({"type": "http.response.body", "body": held[:end], "more_body": True})
                    held = held[end:]
                if len(held) > self._limits.reply_bytes:
                    raise UpstreamInvalid("The upstream sent an event that is too large.")
                piece = await reply.read()
            if held.strip() not in (b"", b"data: [DONE]"):
                raise UpstreamTruncated("The upstream broke off in the middle of an event.")
        except UpstreamError as error:
            held = error_event(error)
        await send({"type": "http.response.body", "body": held})


def _outgoing(scope: Scope, path: str, body: bytes, bearer: str | None) -> UpstreamRequest:
    model = routed_model(headers_of(scope).get(b"content-type", b""), body)
    if model.startswith("agent:"):
        raise InvalidRequest("Agents answer at /v1/chat/completions only; name a model here.", param="model")
    query = scope.get("query_string", b"").decode("latin-1")
    return UpstreamRequest(
        path=path.removeprefix(PREFIX) + (f"?{query}" if query else ""),
        body=body,
        headers=upward(scope["headers"]).first,
        model=model,
        method=scope["method"],
        bearer=bearer,
    )


def _check(upstream: Upstream, reply: UpstreamReply) -> None:
    if reply.status in (401, 403) and not upstream.passes_bearer:
        raise UpstreamAuth(f"Upstream {upstream.name!r} refuses the gateway's key (HTTP {reply.status}).")
    if media_type(reply) == "text/html":
        raise UpstreamInvalid(f"Upstream {upstream.name!r} answered with a web page.")
