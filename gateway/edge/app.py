"""The ASGI app: chat requests go straight to their endpoint, everything else goes through starlette."""

from collections.abc import Awaitable

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.edge.chat import ChatEndpoint
from gateway.edge.errors import ErrorBoundary
from gateway.edge.metrics import Metrics
from gateway.edge.outcomes import OTHER, OutcomeMiddleware, get_outcome, name_route
from gateway.edge.paths import normalize_path
from gateway.edge.recorder import RequestOutcome, RequestRecorder
from gateway.errors import GatewayError

CHAT = "/v1/chat/completions"
CHAT_BYTES = CHAT.encode()


class EdgeApp:
    """Hands a request to its endpoint."""

    def __init__(self, chat: ChatEndpoint, site: ASGIApp, metrics: Metrics, recorder: RequestRecorder) -> None:
        self._chat = chat
        self._site = site
        self._metrics = metrics
        self._recorder = recorder
        self._serve_path = OutcomeMiddleware(ErrorBoundary(self._dispatch), recorder)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """No coroutine of its own: a stream passes here with every chunk."""
        if scope["type"] == "lifespan":
            return self._site(scope, receive, send)
        if scope["raw_path"] == CHAT_BYTES:
            return self._chat.serve(scope, receive, send)
        return self._serve_path(scope, receive, send)

    def record_refusal(self, error: GatewayError) -> None:
        """Record a request that a connection refused before it could reach anybody here."""
        self._recorder.record_outcome(RequestOutcome(OTHER, error.status, error.code))

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, outcome = normalize_path(scope["raw_path"]), get_outcome(scope)
        outcome.route = name_route(path)
        if path == CHAT:
            outcome.recorded = True
            return await self._chat.serve(scope, receive, send)
        self._metrics.in_flight += 1
        try:
            await self._site({**scope, "path": path, "root_path": ""}, receive, send)
        finally:
            self._metrics.in_flight -= 1
