"""The management API as one starlette app, built from groups of routes.

Servers decode `scope["path"]`, which makes `a%2Fb` and `a/b` the same. The routes match the escaped path instead, so
that an escaped slash stays inside its segment; `ApiRoute` decodes the path parameters.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from urllib.parse import quote, unquote_to_bytes

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.edge.limits import RateLimiter
from gateway.edge.manage.calls import PREFIX, ApiReply
from gateway.edge.manage.openapi import make_openapi_route
from gateway.edge.manage.problems import handle_error
from gateway.edge.manage.routes import ApiRoute, RouteGroup
from gateway.errors import InvalidRequest, UnknownEndpoint
from gateway.settings import LimitSettings

_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def build_api_app(groups: Iterable[RouteGroup], limits: LimitSettings, limiter: RateLimiter | None = None) -> Starlette:
    """Everything below `/api/v1`, for callers who have been authenticated (`request.state.principal`)."""
    routes = [route for group in groups for route in group.list_routes()]
    routes.append(make_openapi_route(routes))
    app = Starlette(
        routes=order_routes(routes),
        middleware=[
            # Starlette raises again what its own handler for `Exception` has answered; the connection would be lost.
            Middleware(ExceptionMiddleware, handlers={Exception: handle_error}),
            Middleware(EscapedPathMiddleware),
        ],
        exception_handlers={HTTPException: handle_error},
    )
    app.router.redirect_slashes = False
    app.state.limits, app.state.limiter = limits, limiter
    app.state.api_routes = tuple(routes)
    return app


def get_api_routes(app: Starlette) -> tuple[ApiRoute, ...]:
    """The operations of the API, in the order of the OpenAPI document."""
    routes: tuple[ApiRoute, ...] = app.state.api_routes
    return routes


def order_routes(routes: Sequence[ApiRoute]) -> list[Route]:
    """The most specific path first; after the operations of a path, what answers its other methods."""
    ordered: list[Route] = []
    by_precedence = sorted(routes, key=lambda route: (route.precedence, route.path))
    for path, operations in groupby(by_precedence, key=lambda route: route.path):
        same_path = list(operations)
        methods = {method for route in same_path for method in route.methods or ()}
        ordered += [*same_path, Route(path, OtherMethods(", ".join(sorted({*methods, "OPTIONS"}))))]
    return ordered


class OtherMethods(msgspec.Struct, frozen=True):
    """Answers the methods that a path has no operation for: OPTIONS, and all others with 405."""

    allow: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"allow": self.allow}
        if scope["method"] != "OPTIONS":
            raise HTTPException(405, headers=headers)
        await ApiReply(status_code=204, headers=headers)(scope, receive, send)


class EscapedPathMiddleware:
    """Hands the escaped path below `/api/v1` to the routes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": escape_path(scope["raw_path"]), "root_path": ""}
        await self.app(scope, receive, send)


def escape_path(raw_path: bytes) -> str:
    """The path below `/api/v1` in one spelling: every segment escaped alike, no slash at the end.

    Raises InvalidRequest for escapes that cannot be decoded.
    """
    if not raw_path.startswith(f"{PREFIX}/".encode()):
        raise UnknownEndpoint(f"The management API is at {PREFIX}.")
    below = raw_path[len(PREFIX) :].strip(b"/")
    if _BROKEN_ESCAPE.search(below):
        raise InvalidRequest("The path contains an incomplete percent-escape.")
    try:
        return "/" + "/".join(quote(unquote_to_bytes(segment).decode(), safe="") for segment in below.split(b"/"))
    except UnicodeDecodeError as error:
        raise InvalidRequest("The path is not valid UTF-8.") from error
