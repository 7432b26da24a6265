"""Key-values in memory: for tests, and for one process that may lose them at a restart."""

import heapq
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gateway.errors import StoreFull
from gateway.stores.codec import encode_text, parse_counter
from gateway.stores.protocols import CommonValue, join_values

ENTRY_OVERHEAD = 256  # bytes that an entry costs besides its key and value, roughly


class MemoryEntry(msgspec.Struct, frozen=True):
    """A value and when it expires (None: never)."""

    value: bytes
    expires: float | None
    cost: int

    def is_live(self, now: float) -> bool:
        return self.expires is None or self.expires > now


class MemoryEphemeralStore:
    """Bounded: when it is full, what expires first is dropped first, and what never expires is never dropped.

    What stands before the last `/` in a key is the group that it belongs to. The group that holds the most gives
    something up before others do, so that what one workspace keeps does not displace what another one needs.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._entries: dict[str, MemoryEntry] = {}
        self._deadlines: list[tuple[float, str]] = []  # a heap; may contain stale pairs of overwritten entries
        self._groups: dict[str, dict[str, None]] = {}  # keys in the order in which they were set
        self._group_bytes: dict[str, int] = {}
        self._bytes = 0
        self._permanent_bytes = 0

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        now = self._clock()
        self._drop_expired(now)
        self._set(key, value, None if ttl is None else now + ttl)

    async def append_many(self, values: Mapping[str, bytes], ttl: float, shared: Sequence[CommonValue] = ()) -> None:
        for key, value in join_values(values, shared).items():
            await self.put(key, value, ttl)

    async def find_appended(self, keys: Sequence[str]) -> dict[str, bytes]:
        return await self.get_many(keys)

    async def put_new(self, key: str, value: bytes) -> bytes:
        self._drop_expired(self._clock())
        if key not in self._entries:
            self._set(key, value, None)
        return self._entries[key].value

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        now = self._clock()
        entries = ((key, self._entries.get(key)) for key in keys)
        return {key: entry.value for key, entry in entries if entry is not None and entry.is_live(now)}

    async def add(self, key: str, amount: int, ttl: float) -> int:
        now = self._clock()
        self._drop_expired(now)
        entry = self._entries.get(key)
        total = amount + (parse_counter(key, entry.value) if entry else 0)
        self._set(key, b"%d" % total, entry.expires if entry else now + ttl)
        return total

    async def add_many(self, amounts: Mapping[str, int], ttl: float) -> dict[str, int]:
        kept = await self.get_many(list(amounts))
        sums = {key: parse_counter(key, value) for key, value in kept.items()}  # all of them, before any is changed
        for key, amount in amounts.items():
            sums[key] = await self.add(key, amount, ttl) if amount else sums.get(key, 0)
        return sums

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        now, value = self._clock(), encode_text(owner)
        self._drop_expired(now)
        entry = self._entries.get(key)
        if entry is not None and entry.value != value:
            return False
        self._set(key, value, now + ttl)
        return True

    async def close(self) -> None:
        self._entries.clear()
        self._deadlines.clear()

    def _set(self, key: str, value: bytes, expires: float | None) -> None:
        entry = MemoryEntry(value, expires, len(key) + len(value) + ENTRY_OVERHEAD)
        previous = self._entries.get(key)
        permanent = self._permanent_bytes - (previous.cost if previous and previous.expires is None else 0)
        # Checked before anything is touched, so that a refusal leaves the previous value in place.
        if permanent + entry.cost > self._max_bytes:
            raise StoreFull(f"The memory store is full ({self._max_bytes} bytes); use a sqlite:/// store.")
        self._drop(key)
        while self._bytes + entry.cost > self._max_bytes:
            self._make_room()
        self._entries[key] = entry
        self._bytes += entry.cost
        if (group := find_group(key, entry)) is not None:
            self._groups.setdefault(group, {})[key] = None
            self._group_bytes[group] = self._group_bytes.get(group, 0) + entry.cost
        if expires is None:
            self._permanent_bytes += entry.cost
        else:
            self._add_deadline(expires, key)

    def _add_deadline(self, expires: float, key: str) -> None:
        heapq.heappush(self._deadlines, (expires, key))
        # Overwriting a key leaves a stale pair behind; rebuilding at twice the size costs little per write.
        if len(self._deadlines) > 2 * len(self._entries) + 64:
            self._deadlines = [(e.expires, k) for k, e in self._entries.items() if e.expires is not None]
            heapq.heapify(self._deadlines)

    def _drop_expired(self, now: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            self._drop_earliest()

    def _make_room(self) -> None:
        most = max(self._group_bytes, key=self._group_bytes.__getitem__, default=None)
        if most is None:
            self._drop_earliest()
        else:
            self._drop(next(iter(self._groups[most])))

    def _drop_earliest(self) -> None:
        """Drop the entry whose deadline comes first, or only a stale deadline."""
        expires, key = heapq.heappop(self._deadlines)
        entry = self._entries.get(key)
        if entry is not None and entry.expires == expires:
            self._drop(key)

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.cost
            if entry.expires is None:
                self._permanent_bytes -= entry.cost
            if (group := find_group(key, entry)) is not None:
                del self._groups[group][key]
                self._group_bytes[group] -= entry.cost
                if not self._groups[group]:
                    del self._groups[group], self._group_bytes[group]


def find_group(key: str, entry: MemoryEntry) -> str | None:
    """What an entry belongs to; None: to nothing, or it must not be dropped."""
    group, slash, _ = key.rpartition("/")
    return group if slash and entry.expires is not None else None
