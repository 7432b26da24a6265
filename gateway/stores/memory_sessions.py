"""Sessions in memory: for tests, and for one process that may lose them at a restart."""

import time
from collections.abc import Callable

import msgspec

from gateway.domain.session import SessionKey
from gateway.errors import StoreFull
from gateway.stores.protocols import SessionOwner, SessionPage, StoredSession

MAX_SESSIONS = 10_000


class KeptSession(msgspec.Struct, frozen=True):
    """A session and when it expires."""

    stored: StoredSession
    expires: float


class MemorySessionStore:
    """A SessionStore that refuses new sessions when it is full."""

    def __init__(self, *, clock: Callable[[], float] = time.time, capacity: int = MAX_SESSIONS) -> None:
        self._clock, self._capacity = clock, capacity
        self._kept: dict[SessionKey, KeptSession] = {}

    async def get(self, key: SessionKey) -> StoredSession | None:
        kept = self._kept.get(key)
        return kept.stored if kept is not None and kept.expires > self._clock() else None

    async def put(self, key: SessionKey, body: bytes, expected: int, ttl: float) -> StoredSession | None:
        now, current = self._clock(), await self.get(key)
        if (current.version if current is not None else 0) != expected:
            return None
        if current is None and len(self._kept) >= self._capacity:
            self._drop_expired(now)
        stored = StoredSession(key, expected + 1, body, now)
        self._kept[key] = KeptSession(stored, now + ttl)
        return stored

    async def renew(self, key: SessionKey, ttl: float) -> None:
        stored = await self.get(key)
        if stored is not None:
            self._kept[key] = KeptSession(stored, self._clock() + ttl)

    async def delete(self, key: SessionKey, expected: int | None = None) -> bool:
        current = await self.get(key)
        if current is None or expected not in (None, current.version):
            return False
        del self._kept[key]
        return True

    async def count(self, workspace: str) -> int:
        now = self._clock()
        return sum(key.workspace == workspace and kept.expires > now for key, kept in self._kept.items())

    async def list_sessions(self, owner: SessionOwner, skip: int, take: int) -> SessionPage:
        now = self._clock()
        found = [kept.stored for key, kept in self._kept.items() if kept.expires > now and owner.owns(key)]
        found.sort(key=lambda stored: (-stored.updated, stored.key))
        return SessionPage(found[skip : skip + take], len(found))

    def _drop_expired(self, now: float) -> None:
        self._kept = {key: kept for key, kept in self._kept.items() if kept.expires > now}
        if len(self._kept) >= self._capacity:
            raise StoreFull(f"The memory store is full ({self._capacity} sessions); use a sqlite:/// store.")
