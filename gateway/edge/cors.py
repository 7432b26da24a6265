"""Web pages of configured origins may call the gateway: preflights are answered, responses say so (CORS).

Nothing of this is in the way of a gateway without configured origins.
"""

import re
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.edge.access import AccessControl
from gateway.edge.console_files import is_console_path
from gateway.edge.errors import respond_with_error, send_error
from gateway.edge.request import ClientRequest, DirectEndpoint, HeaderLines, RequestHead, read_head
from gateway.edge.response import send_body
from gateway.errors import GatewayError

METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE"
PREFLIGHT_SECONDS: Final = b"600"
EXPOSED: Final = b"*"  # pages elsewhere never send cookies here, so that the star stands for every header
MAX_ASKED: Final = 4096  # bytes of the header names that a preflight asks for
_NAMES: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, \t-]*")

ResponseHeaders = list[tuple[bytes, bytes]]


class AllowedOrigins:
    """The origins whose pages may call the gateway."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def build_headers(self, headers: HeaderLines) -> ResponseHeaders:
        """What responses to a page carry; empty where no page of these origins asks."""
        origins = [value for name, value in headers if name == b"origin"]
        if len(origins) != 1 or origins[0] not in self._origins:
            return []
        return [
            (b"access-control-allow-origin", origins[0]),
            (b"access-control-expose-headers", EXPOSED),
            (b"vary", b"origin"),
        ]


def build_preflight_headers(headers: HeaderLines) -> ResponseHeaders:
    """What a preflight is answered with, besides the origin; empty if a request is none."""
    given = dict(headers)
    if b"access-control-request-method" not in given:
        return []
    asked = given.get(b"access-control-request-headers", b"")
    allowed = asked if len(asked) <= MAX_ASKED and _NAMES.fullmatch(asked) else b""
    return [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", allowed),
        (b"access-control-max-age", PREFLIGHT_SECONDS),
    ]


class CorsEndpoint:
    """A direct endpoint that pages may call."""

    def __init__(self, endpoint: DirectEndpoint, origins: AllowedOrigins, access: AccessControl) -> None:
        self.path = endpoint.path
        self._endpoint, self._origins, self._access = endpoint, origins, access

    async def serve(self, request: ClientRequest) -> None:
        """Answer one request; a preflight needs no key, since browsers send none with it."""
        allowed = self._origins.build_headers(request.headers)
        preflight = build_preflight_headers(request.headers) if allowed and request.method == "OPTIONS" else []
        if not preflight:
            return await self._endpoint.serve(CorsRequest(request, allowed) if allowed else request)
        try:
            self._access.check_host(read_head(request.headers))
        except GatewayError as error:
            return await respond_with_error(request, error, allowed)
        await request.respond(204, [*allowed, *preflight], b"")


class CorsRequest(ClientRequest):
    """A request whose response is readable for the page that sent it."""

    def __init__(self, request: ClientRequest, allowed: ResponseHeaders) -> None:
        self.method, self.target, self.head = request.method, request.target, request.head
        self._request, self._allowed = request, allowed

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return list(self._request.headers)

    async def read_body(self, head: RequestHead, max_bytes: int) -> bytes:
        return await self._request.read_body(head, max_bytes)

    async def respond(self, status: int, headers: HeaderLines, body: bytes) -> None:
        await self._request.respond(status, [*headers, *self._allowed], body)

    def start_stream(self, status: int, headers: HeaderLines) -> None:
        self._request.start_stream(status, [*headers, *self._allowed])

    def write(self, data: bytes) -> bool:
        return self._request.write(data)

    async def drain(self) -> None:
        await self._request.drain()

    def end(self, data: bytes) -> None:
        self._request.end(data)


class CorsMiddleware:
    """The same for everything that is answered through ASGI."""

    def __init__(self, app: ASGIApp, origins: AllowedOrigins, access: AccessControl) -> None:
        self._app, self._origins, self._access = app, origins, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shared = scope["type"] == "http" and not is_console_path(scope["path"])
        allowed = self._origins.build_headers(scope["headers"]) if shared else []
        if not allowed:
            return await self._app(scope, receive, send)

        async def send_allowed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *allowed]}
            await send(message)

        preflight = build_preflight_headers(scope["headers"]) if scope["method"] == "OPTIONS" else []
        if not preflight:
            return await self._app(scope, receive, send_allowed)
        try:
            self._access.check_host(read_head(scope["headers"]))
        except GatewayError as error:
            return await send_error(send_allowed, error)
        await send_body(send_allowed, 204, b"", preflight)
