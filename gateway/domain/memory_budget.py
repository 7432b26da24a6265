"""One bound in bytes for what a process caches, shared fairly by workspaces."""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any
from weakref import WeakSet

MAX_BYTES = 64 * 2**20
IDLE_SECONDS = 600.0  # after which a partition is the first to make room
KEPT_SHARE = 15 / 16  # of the bound that is left after making room, so that it is made once for many entries
ENTRY_BYTES = 400  # of an entry besides its value: dictionary, bookkeeping, a short key


class SharedValue:
    """A value that several entries of a partition hold; it is weighed once, and kept as long as one of them is."""

    __slots__ = ("key", "users", "value", "weight")

    def __init__(self, key: Hashable, value: Any, weight: int) -> None:
        self.key, self.value, self.weight = key, value, weight
        self.users = 0


class CacheEntry:
    """A cached value, what it weighs by itself, and what it shares with other entries."""

    __slots__ = ("shared", "value", "weight")

    def __init__(self, value: Any, weight: int, shared: SharedValue | None) -> None:
        self.value, self.weight, self.shared = value, weight, shared


class CachePartition:
    """What is cached for one workspace, the least recently used first. Whoever made it holds it: it dies with that."""

    __slots__ = ("__weakref__", "_budget", "_entries", "_shared", "used_at", "weight", "workspace")

    def __init__(self, budget: "MemoryBudget", workspace: str) -> None:
        self._budget = budget
        self._entries: OrderedDict[Hashable, CacheEntry] = OrderedDict()
        self._shared: dict[Hashable, SharedValue] = {}
        self.workspace = workspace
        self.weight = 0
        self.used_at = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Any | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry.value

    def peek(self, key: Hashable) -> Any | None:
        """As `get`, from any thread: it does not count as a use."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def get_shared(self, key: Hashable) -> SharedValue | None:
        """What another entry has brought along."""
        return self._shared.get(key)

    def put(self, key: Hashable, value: Any, weight: int, shared: SharedValue | None = None) -> None:
        """Keep a value, unless it alone would take more than a workspace may be left with."""
        budget = self._budget
        self.used_at = budget.clock()
        brought = 0
        if shared is not None:
            known = self._shared.get(shared.key)
            shared = known if known is not None else shared
            brought = 0 if known is not None else shared.weight
        weight += ENTRY_BYTES
        if weight + brought > budget.max_bytes * KEPT_SHARE:
            return
        if shared is not None:
            self._shared[shared.key] = shared
            shared.users += 1
        if key in self._entries:
            self._remove(key)
        self._entries[key] = CacheEntry(value, weight, shared)
        self._add_weight(weight + brought)
        budget.make_room()

    def drop(self, key: Hashable) -> None:
        """Forget a value, if it is there."""
        if key in self._entries:
            self._remove(key)

    def shrink(self, size: int) -> None:
        """Drop the least recently used entries until no more than `size` bytes are left."""
        while self._entries and self.weight > size:
            self._remove(next(iter(self._entries)))

    def clear(self) -> None:
        self.shrink(-1)

    def _remove(self, key: Hashable) -> None:
        entry = self._entries.pop(key)
        freed, shared = entry.weight, entry.shared
        if shared is not None:
            shared.users -= 1
            if not shared.users:
                del self._shared[shared.key]
                freed += shared.weight
        self._add_weight(-freed)

    def _add_weight(self, weight: int) -> None:
        self.weight += weight
        self._budget.used += weight


class MemoryBudget:
    """The bytes that all partitions may take together.

    When they run out, partitions that were idle for long make room first, then the workspaces that hold the most: each
    is brought down to the same level, and those below it lose nothing. So nobody can push out another's entries.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_bytes = max_bytes
        self.clock = clock
        self.used = 0  # at least what is held: partitions that died are noticed when room is made
        self._partitions: WeakSet[CachePartition] = WeakSet()

    def open(self, workspace: str) -> CachePartition:
        """A new partition, as long as the caller holds it."""
        partition = CachePartition(self, workspace)
        partition.used_at = self.clock()
        self._partitions.add(partition)
        return partition

    def measure(self) -> int:
        """The bytes that are held now."""
        self.used = sum(partition.weight for partition in self._partitions)
        return self.used

    def make_room(self) -> None:
        if self.used <= self.max_bytes or self.measure() <= self.max_bytes:
            return
        wanted = int(self.max_bytes * KEPT_SHARE)
        oldest_first = sorted(self._partitions, key=lambda partition: partition.used_at)
        for partition in oldest_first:
            if self.used <= wanted or partition.used_at > self.clock() - IDLE_SECONDS:
                break
            partition.clear()
        held: defaultdict[str, list[CachePartition]] = defaultdict(list)
        for partition in oldest_first:
            held[partition.workspace].append(partition)
        level = find_level((sum(one.weight for one in partitions) for partitions in held.values()), wanted)
        for partitions in held.values():
            shrink_together(partitions, level)


def shrink_together(partitions: list[CachePartition], size: int) -> None:
    """Bring the partitions of one workspace down to a size, the first of them first."""
    excess = sum(partition.weight for partition in partitions) - size
    for partition in partitions:
        if excess <= 0:
            return
        before = partition.weight
        partition.shrink(before - excess)
        excess -= before - partition.weight


def find_level(weights: Iterable[int], total: int) -> int:
    """The largest level such that all weights together, each cut down to it, are within a total."""
    ascending = sorted(weights)
    left = total
    for place, weight in enumerate(ascending):
        share = left // (len(ascending) - place)
        if weight > share:
            return share
        left -= weight
    return ascending[-1] if ascending else 0
