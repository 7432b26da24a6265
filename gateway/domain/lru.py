"""What was made once and may be asked for again."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

ENTRIES = 4096
WEIGHT = 200_000  # lines of catalogues, some 200 bytes each: a selection from a thousand resources is no small thing


class LruCache:
    """Values by key within bounds: the least recently used are forgotten first."""

    def __init__(self, entries: int = ENTRIES, weight: int = WEIGHT) -> None:
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._entries, self._most = entries, weight
        self._weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Any | None:
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: Any, weight: int = 1) -> None:
        """Keep a value, unless it alone weighs more than all may."""
        if weight > self._most:
            return
        self._weight += weight - self._kept.pop(key, (None, 0))[1]
        self._kept[key] = (value, weight)
        while len(self._kept) > self._entries or self._weight > self._most:
            self._weight -= self._kept.popitem(last=False)[1][1]


class HitCounter:
    """How often something was at hand when it was looked for."""

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
