"""The ephemeral store without a file: for tests, and for one process that may forget at a restart."""

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.errors import StoreFull
from gateway.stores.codec import counted, encoded

ENTRY_OVERHEAD = 256  # bytes that an entry costs besides its key and value, roughly


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """A kept value and the moment from which it counts as absent (None: never)."""

    value: bytes
    expires: float | None
    cost: int

    def live(self, now: float) -> bool:
        return self.expires is None or self.expires > now


class MemoryStore:
    """Bounded: when it is full, what expires first goes first, and what was kept for good never goes."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._entries: dict[str, MemoryEntry] = {}
        self._deadlines: list[tuple[float, str]] = []  # a heap; may hold stale pairs of overwritten entries
        self._bytes = 0
        self._lasting_bytes = 0

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        now = self._clock()
        self._forget_expired(now)
        self._keep(key, value, None if ttl is None else now + ttl)

    async def put_new(self, key: str, value: bytes) -> bytes:
        self._forget_expired(self._clock())
        if key not in self._entries:
            self._keep(key, value, None)
        return self._entries[key].value

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        now = self._clock()
        found = ((key, self._entries.get(key)) for key in keys)
        return {key: entry.value for key, entry in found if entry is not None and entry.live(now)}

    async def add(self, key: str, amount: int, ttl: float) -> int:
        now = self._clock()
        self._forget_expired(now)
        former = self._entries.get(key)
        total = amount + (counted(key, former.value) if former else 0)
        self._keep(key, b"%d" % total, former.expires if former else now + ttl)
        return total

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        now, value = self._clock(), encoded(owner)
        self._forget_expired(now)
        former = self._entries.get(key)
        if former is not None and former.value != value:
            return False
        self._keep(key, value, now + ttl)
        return True

    async def close(self) -> None:
        self._entries.clear()
        self._deadlines.clear()

    def _keep(self, key: str, value: bytes, expires: float | None) -> None:
        entry = MemoryEntry(value, expires, len(key) + len(value) + ENTRY_OVERHEAD)
        former = self._entries.get(key)
        lasting = self._lasting_bytes - (former.cost if former and former.expires is None else 0)
        # Decided before anything is touched, so that a refusal leaves the former value in place.
        if lasting + entry.cost > self._max_bytes:
            raise StoreFull(f"The memory store is full ({self._max_bytes} bytes); use a sqlite:/// store.")
        self._forget(key)
        while self._bytes + entry.cost > self._max_bytes:
            self._forget_next()
        self._entries[key] = entry
        self._bytes += entry.cost
        if expires is None:
            self._lasting_bytes += entry.cost
        else:
            self._await_deadline(expires, key)

    def _await_deadline(self, expires: float, key: str) -> None:
        heapq.heappush(self._deadlines, (expires, key))
        # Overwriting a key leaves a stale pair behind; rebuilding at twice the size costs little per write.
        if len(self._deadlines) > 2 * len(self._entries) + 64:
            self._deadlines = [(e.expires, k) for k, e in self._entries.items() if e.expires is not None]
            heapq.heapify(self._deadlines)

    def _forget_expired(self, now: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            self._forget_next()

    def _forget_next(self) -> None:
        """Drop the entry whose deadline comes first, or only a stale deadline."""
        expires, key = heapq.heappop(self._deadlines)
        entry = self._entries.get(key)
        if entry is not None and entry.expires == expires:
            self._forget(key)

    def _forget(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.cost
            if entry.expires is None:
                self._lasting_bytes -= entry.cost
