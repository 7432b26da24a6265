"""Notes what users do with nodes: at once in memory, in the store a moment later."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from gateway.domain.content import ActivityKind, NodeActivity
from gateway.errors import StoreError
from gateway.stores.content import ContentStore

MAX_WAITING = 10_000  # that the store has not taken yet; of more, the workspace with the most loses its oldest
LONGEST_NAME = 520  # characters of whoever did it; a client may write any number
FLUSH_SECONDS = 1.0

Notes = dict[tuple[str, str, ActivityKind], float]  # user, node, kind → when


class ActivityLog:
    """Nobody waits for it. A replica sees its own notes at once, those of others when they are stored."""

    def __init__(self, store: ContentStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._waiting: dict[str, Notes] = {}  # by workspace
        self._count = 0
        self.lost = 0

    def note(self, workspace: str, user: str, id: str, kind: ActivityKind) -> None:
        """Remember that a user did something with a node now."""
        if len(user) > LONGEST_NAME:
            return
        waiting = self._waiting.setdefault(workspace, {})
        self._count += (user, id, kind) not in waiting
        waiting.pop((user, id, kind), None)
        waiting[user, id, kind] = self._clock()
        if self._count > MAX_WAITING:
            self._lose_one()

    async def list_recent(self, workspace: str, user: str, since: float, limit: int) -> Sequence[NodeActivity]:
        """What a user did since a moment, the latest first; each node once per kind. Raises StoreError."""
        if workspace in self._waiting:
            await self._store_notes(workspace)
        return await self._store.list_recent(workspace, user, since, limit)

    async def flush(self) -> None:
        """Store what waits; raises StoreError, and what was not stored waits on."""
        for workspace in list(self._waiting):
            await self._store_notes(workspace)

    async def run(self, seconds: float = FLUSH_SECONDS) -> None:
        """Store what is noted, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            with contextlib.suppress(StoreError):  # the next attempt comes soon
                await self.flush()

    async def _store_notes(self, workspace: str) -> None:
        waiting = self._waiting.pop(workspace, {})
        self._count -= len(waiting)
        activities = [NodeActivity(id, user, kind, at) for (user, id, kind), at in waiting.items()]
        try:
            if activities:
                await self._store.note(workspace, activities)
        except BaseException:  # the store failed, or nobody waits for the answer any more
            newer = self._waiting.get(workspace, {})
            self._count += len(waiting.keys() - newer.keys())
            self._waiting[workspace] = {**waiting, **newer}
            raise

    def _lose_one(self) -> None:
        most = max(self._waiting.values(), key=len)
        del most[next(iter(most))]
        self._count -= 1
        self.lost += 1
