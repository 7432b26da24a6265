"""What was made once and may be needed again."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

ENTRIES = 4096
WEIGHT = 200_000  # catalogue lines of some 200 bytes each: a selection from a thousand resources is not small

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """Values by key within bounds: the least recently used are dropped first."""

    def __init__(self, entries: int = ENTRIES, weight: int = WEIGHT) -> None:
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._entries, self._most = entries, weight
        self._weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        found = self._kept.get(key)
        if found is None:
            return None
        try:  # noqa: SIM105 - `suppress` would take longer than all the rest
            self._kept.move_to_end(key)
        except KeyError:
            pass  # another thread has dropped it meanwhile
        return found[0]

    def put(self, key: Key, value: Value, weight: int = 1) -> None:
        """Keep a value, unless it alone weighs more than all together may."""
        if weight > self._most:
            return
        former = self._kept.pop(key, None)
        self._weight += weight - (former[1] if former is not None else 0)
        self._kept[key] = (value, weight)
        while len(self._kept) > self._entries or self._weight > self._most:
            self._weight -= self._kept.popitem(last=False)[1][1]

    def clear(self) -> None:
        self._kept.clear()
        self._weight = 0


class HitCounter:
    """How often something was cached when it was looked for."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0

    def count(self, hit: bool) -> None:
        if hit:
            self.hits += 1
        else:
            self.misses += 1

    @property
    def by_outcome(self) -> dict[tuple[str, ...], float]:
        return {("hit",): self.hits, ("miss",): self.misses}
