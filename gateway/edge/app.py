"""Which endpoint answers which path: chat by itself, everything else through starlette."""

from collections.abc import Awaitable, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.edge.errors import ErrorBoundary
from gateway.edge.metrics import Metrics
from gateway.edge.outcomes import OTHER, OutcomeMiddleware, get_outcome, name_route
from gateway.edge.paths import normalize_path
from gateway.edge.recorder import RequestOutcome, RequestRecorder
from gateway.edge.request import DirectEndpoint
from gateway.errors import GatewayError


class EdgeApp:
    """The chat endpoints, which the connections call, and the ASGI app for all other paths."""

    def __init__(
        self, direct: Sequence[DirectEndpoint], site: ASGIApp, metrics: Metrics, recorder: RequestRecorder
    ) -> None:
        self.direct = direct
        self._site = site
        self._metrics = metrics
        self._recorder = recorder
        self._serve_path = OutcomeMiddleware(ErrorBoundary(self._dispatch), recorder)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return complete_lifespan(receive, send)
        return self._serve_path(scope, receive, send)

    def record_refusal(self, error: GatewayError) -> None:
        """Record a request that a connection refused before it could reach anybody here."""
        self._recorder.record_outcome(RequestOutcome(OTHER, error.status, error.code))

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, outcome = normalize_path(scope["raw_path"]), get_outcome(scope)
        outcome.route = name_route(path)
        self._metrics.in_flight += 1
        try:
            await self._site({**scope, "path": path, "root_path": ""}, receive, send)
        finally:
            self._metrics.in_flight -= 1


async def complete_lifespan(receive: Receive, send: Send) -> None:
    """Tell the server that it may begin, and later that it may end: what is to be done then is done elsewhere."""
    for step in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{step}.complete"})
