"""Apps that a start need not wait for: the site, and what may never be asked for, the management API and MCP."""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send


class LazyApp:
    """Builds an app on its first request, or before it: the management API takes a fifth of a start and 5 MB."""

    def __init__(self, build: Callable[[], ASGIApp]) -> None:
        self._build = build
        self._lock = asyncio.Lock()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app or await self.load()
        await app(scope, receive, send)

    async def load(self) -> ASGIApp:
        """The app, built once, in a thread: that takes longer than a chat should wait."""
        async with self._lock:
            if self._app is None:
                self._app = await asyncio.to_thread(self._build)
            return self._app
