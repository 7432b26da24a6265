"""Every request that is no chat leaves an outcome: those that are refused, too."""

import time
from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.edge.recorder import RequestOutcome, RequestRecorder

ROUTES = {
    "/livez": "health",
    "/readyz": "health",
    "/metrics": "metrics",
    "/mcp": "mcp",
    "/v1/models": "models",
    "/api/v1": "management",
    "/console": "console",
}
BRANCHES = (("/v1/models/", "models"), ("/api/v1/", "management"), ("/console/", "console"))
OTHER = "other"  # unknown paths; the pass-through names its own


def name_route(path: str) -> str:
    """The name of a normalized path's route."""
    return ROUTES.get(path) or next((name for start, name in BRANCHES if path.startswith(start)), OTHER)


def get_outcome(scope: Scope) -> RequestOutcome:
    """The outcome of the request at hand, to be completed by whoever knows more about it."""
    outcome: RequestOutcome | None = scope.get("outcome")
    return outcome if outcome is not None else RequestOutcome(OTHER)


class OutcomeMiddleware:
    """Records how each request ended, unless the app below did so itself."""

    def __init__(self, app: ASGIApp, recorder: RequestRecorder) -> None:
        self._app = app
        self._recorder = recorder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        outcome = RequestOutcome(OTHER)
        try:
            await self._app({**scope, "outcome": outcome}, receive, _StatusWatch(send, outcome))
        finally:
            if not outcome.recorded:
                outcome.seconds = time.perf_counter() - began
                self._recorder.record_outcome(outcome)


class _StatusWatch:
    """`send` that notes the status; no coroutine of its own, for streams have many messages."""

    __slots__ = ("_outcome", "_send")

    def __init__(self, send: Send, outcome: RequestOutcome) -> None:
        self._send = send
        self._outcome = outcome

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self._outcome.status = message["status"]
        return self._send(message)
