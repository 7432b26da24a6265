"""Apps for a gateway that may never be asked for them: the management API, MCP."""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send


class LazyApp:
    """Builds an app on its first request: the management API takes a fifth of a start and 5 MB, MCP a second.

    Whoever routes to it has authenticated the caller: `scope["state"]["caller"]`.
    """

    def __init__(self, build: Callable[[], ASGIApp]) -> None:
        self._build = build
        self._lock = asyncio.Lock()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app or await self._load()
        await app(scope, receive, send)

    async def _load(self) -> ASGIApp:
        """Built in a thread, since that takes longer than a chat should wait."""
        async with self._lock:
            if self._app is None:
                self._app = await asyncio.to_thread(self._build)
            return self._app
