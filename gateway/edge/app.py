"""The ASGI app: chat requests go straight to their endpoint, everything else goes through starlette."""

from collections.abc import Awaitable

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.edge.chat import ChatEndpoint
from gateway.edge.errors import ErrorBoundary
from gateway.edge.metrics import Metrics
from gateway.edge.paths import normalize_path

CHAT = "/v1/chat/completions"
CHAT_BYTES = CHAT.encode()


class EdgeApp:
    """Hands a request to its endpoint."""

    def __init__(self, chat: ChatEndpoint, site: ASGIApp, metrics: Metrics) -> None:
        self._chat = chat
        self._site = site
        self._metrics = metrics
        self._serve_path = ErrorBoundary(self._dispatch)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """No coroutine of its own: a stream passes here with every chunk."""
        if scope["type"] == "lifespan":
            return self._site(scope, receive, send)
        if scope["raw_path"] == CHAT_BYTES:
            return self._chat.serve(scope, receive, send)
        return self._serve_path(scope, receive, send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = normalize_path(scope["raw_path"])
        if path == CHAT:
            return await self._chat.serve(scope, receive, send)
        self._metrics.in_flight += 1
        try:
            await self._site({**scope, "path": path, "root_path": ""}, receive, send)
        finally:
            self._metrics.in_flight -= 1
