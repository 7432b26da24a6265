"""Notes what users do with nodes: at once in memory, in the store a moment later."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from gateway.domain.content import ActivityKind, NodeActivity
from gateway.errors import StoreError
from gateway.stores.content import ContentStore

MAX_WAITING = 10_000  # that the store has not taken yet; of more, the oldest are lost
FLUSH_SECONDS = 1.0


class ActivityLog:
    """Nobody waits for it. A replica sees its own notes at once, those of others when they are stored."""

    def __init__(self, store: ContentStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._waiting: dict[tuple[str, str, str, ActivityKind], float] = {}  # workspace, user, node, kind → when
        self.lost = 0

    def note(self, workspace: str, user: str, id: str, kind: ActivityKind) -> None:
        """Remember that a user did something with a node now."""
        key = (workspace, user, id, kind)
        self._waiting.pop(key, None)
        self._waiting[key] = self._clock()
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
            self.lost += 1

    async def list_recent(self, workspace: str, user: str, since: float, limit: int) -> Sequence[NodeActivity]:
        """What a user did since a moment, the latest first; each node once per kind. Raises StoreError."""
        if self._waiting:
            await self.flush()
        return await self._store.list_recent(workspace, user, since, limit)

    async def flush(self) -> None:
        """Store what waits; raises StoreError, and what was not stored waits on."""
        waiting, self._waiting = self._waiting, {}
        by_workspace: dict[str, list[NodeActivity]] = {}
        for (workspace, user, id, kind), at in waiting.items():
            by_workspace.setdefault(workspace, []).append(NodeActivity(id, user, kind, at))
        try:
            for workspace, activities in by_workspace.items():
                await self._store.note(workspace, activities)
        except StoreError:
            self._waiting = {**waiting, **self._waiting}
            raise

    async def run(self, seconds: float = FLUSH_SECONDS) -> None:
        """Store what is noted, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            if self._waiting:
                with contextlib.suppress(StoreError):  # the next attempt comes soon
                    await self.flush()
