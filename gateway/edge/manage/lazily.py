"""The management API for a gateway that may never be asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from gateway.domain.principal import Principal

if TYPE_CHECKING:
    from gateway.edge.manage.app import Manage


class LazyManagementApp:
    """Builds the API when somebody first asks: its models and schemas take a fifth of a start, and 5 MB."""

    def __init__(self, build: Callable[[], Manage]) -> None:
        self._build = build
        self._turn = asyncio.Lock()
        self._built: Manage | None = None

    async def built(self) -> Manage:
        """The API itself; made in a thread, since that takes longer than a chat should wait."""
        async with self._turn:
            if self._built is None:
                self._built = await asyncio.to_thread(self._build)
            return self._built

    async def serve(self, scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        manage = self._built or await self.built()
        await manage.serve(scope, receive, send, principal)
