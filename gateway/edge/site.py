"""Everything but chat as a starlette app: health, metrics, models, pass-through, management, console, MCP."""

from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.conversation.dialects.openai_errors import render_openai_error
from gateway.edge.access import AccessControl, AccessMiddleware, HostMiddleware
from gateway.edge.errors import BrokenResponse, ErrorBoundary, build_error_headers, log_internal_error
from gateway.edge.health import HealthEndpoint
from gateway.edge.manage.problems import send_problem
from gateway.edge.metrics import Metrics
from gateway.edge.models import ModelsEndpoint
from gateway.edge.outcomes import get_outcome
from gateway.edge.paths import AZURE_ROOTS
from gateway.edge.request import ClientDisconnected
from gateway.edge.sign_ins import SignInGuard
from gateway.edge.stored_responses import StoredResponsesEndpoint
from gateway.errors import GatewayError, MethodNotAllowed, UnknownEndpoint

PASSED_ON: dict[Any, Any] = {BrokenResponse: None, ClientDisconnected: None}  # nobody is left to answer

CONSOLE_PATHS = ("/console", "/console/{path:path}")


class SiteApps(msgspec.Struct, frozen=True):
    """What answers below a path of its own; None: it is switched off."""

    passthrough: ASGIApp  # whatever no other path is
    management: ASGIApp
    console: ASGIApp | None = None
    mcp: ASGIApp | None = None
    responses: StoredResponsesEndpoint | None = None


def build_site(
    access: AccessControl,
    health: HealthEndpoint,
    metrics: Metrics,
    models: ModelsEndpoint,
    apps: SiteApps,
) -> Starlette:
    """The app; paths arrive normalized, those below `/api/v1` and `/v1/models` with their escapes."""
    known_host = Middleware(HostMiddleware, access=access)
    admitted = Middleware(AccessMiddleware, access=access)
    problems = Middleware(ErrorBoundary, respond=send_problem)
    api = Router(
        [
            Route("/v1/models", models.list),
            Route("/v1/models/{model:path}", models.get),
            *(list_response_routes(apps.responses) if apps.responses is not None else ()),
        ],
        redirect_slashes=False,
        default=apps.passthrough,  # it refuses what its allow-list does not name
    )
    others = AccessMiddleware(api, access)
    site = Starlette(
        routes=[
            Route("/livez", health.livez),
            Route("/readyz", health.readyz),
            Route("/metrics", metrics.serve, middleware=[known_host]),
            Mount("/api/v1", apps.management, middleware=[problems, Middleware(SignInGuard), admitted]),
            *([Route("/", FrontPage(others), middleware=[known_host])] if apps.console is not None else []),
            *(Route(path, apps.console, middleware=[known_host]) for path in CONSOLE_PATHS if apps.console is not None),
            *([Route("/mcp", apps.mcp, middleware=[admitted])] if apps.mcp is not None else []),
        ],
        # Starlette raises again what its own handler for `Exception` has answered; the connection would be lost.
        middleware=[Middleware(ExceptionMiddleware, handlers={**PASSED_ON, Exception: answer_failure})],
        exception_handlers={GatewayError: answer_error, HTTPException: answer_http_error},
    )
    site.router.redirect_slashes = False
    site.router.default = others
    return site


class FrontPage(msgspec.Struct, frozen=True):
    """`/` leads browsers to the console; for everybody else it is a path like any other."""

    otherwise: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        is_browser = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")
        await (RedirectResponse("/console") if is_browser else self.otherwise)(scope, receive, send)


def list_response_routes(responses: StoredResponsesEndpoint) -> list[Route]:
    paths = [f"{root}responses/{{id}}" for root in ("/v1/", *AZURE_ROOTS)]
    compact = [
        Route(f"{root}responses/compact", responses.compact, methods=["POST"]) for root in ("/v1/", *AZURE_ROOTS)
    ]
    return [
        *compact,
        *(Route(path, responses.serve, methods=["GET", "DELETE"]) for path in paths),
        *(Route(f"{path}/input_items", responses.list_input) for path in paths),
        *(Route(f"{path}/cancel", responses.cancel, methods=["POST"]) for path in paths),
    ]


def answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, GatewayError)
    get_outcome(request.scope).code = error.code
    headers = {name.decode(): value.decode() for name, value in build_error_headers(error)}
    return Response(render_openai_error(error), error.status, headers, "application/json")


def answer_http_error(request: Request, error: Exception) -> Response:
    """Errors of starlette's own routing."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 405:
        allow = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
        return answer_error(request, MethodNotAllowed(f"{path} only accepts {allow}.", allow=allow))
    return answer_error(request, UnknownEndpoint(f"There is no endpoint {path}."))


def answer_failure(request: Request, error: Exception) -> Response:
    """A bug in the gateway."""
    return answer_error(request, log_internal_error(error))
