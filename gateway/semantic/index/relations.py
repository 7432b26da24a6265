"""Which resources of an index are near to which: computed once, so that an expansion only looks it up."""

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.index.vector_index import Floats, Rows

LARGE = 2_000  # passages; below, five picks are compared with all of them in 4 ms
QUERIES = 5  # passages of a resource that neighbours are looked for with
KEPT = 32  # neighbours of a resource; an expansion that needs more compares after all
BATCH = 12_000_000  # cosines between two pauses: a fifth of a second
TARGETS = 4096  # rows that are compared at once, which keeps them in the cache
DIGITS = 5

Numbers = NDArray[np.int32]


class Relations(msgspec.Struct, frozen=True, eq=False):
    """For each resource, by its number, the nearest others, nearest first."""

    index: PassageIndex
    numbers: Numbers  # resource × place: the neighbour's number, -1 where there are no more
    cosines: Floats
    floors: Floats  # by resource: all that is nearer than this is among its neighbours; 1 while it was not compared
    changed: Rows  # numbers of the resources that are new or changed, where there were relations of a former index

    @classmethod
    def empty(cls, index: PassageIndex) -> Self:
        """Nothing is known yet."""
        count, none = len(index.numbers), np.empty(0, np.intp)
        shape = (count, KEPT)
        return cls(
            index, np.full(shape, -1, np.int32), np.full(shape, -1, np.float32), np.ones(count, np.float32), none
        )

    def carry_over(self, index: PassageIndex) -> "Relations":
        """What of these relations still holds for a newer index."""
        mine, theirs = _read_contents(self.index), _read_contents(index)
        same = [name for name in theirs if mine.get(name) == theirs[name]]
        former = np.array([self.index.numbers[name] for name in same], np.intp)
        newer = np.array([index.numbers[name] for name in same], np.intp)
        is_changed = np.ones(len(index.numbers), np.bool_)
        is_changed[newer] = False
        empty = Relations.empty(index)
        made = Relations(index, empty.numbers, empty.cosines, empty.floors, np.flatnonzero(is_changed))
        translated = np.full(len(self.index.numbers) + 1, -1, np.int32)  # the last stands for "no more"
        translated[former] = newer
        made.numbers[newer] = translated[self.numbers[former]]
        made.cosines[newer] = np.where(made.numbers[newer] >= 0, self.cosines[former], -1)
        made.floors[newer] = self.floors[former]
        return made

    def update(self, batch: int = BATCH) -> Iterator[None]:
        """Compare what is missing, a batch with each step: what was not compared yet, then the others with changes."""
        everyone = np.arange(len(self.numbers))
        unknown = self.floors >= 1
        yield from self.compare(everyone[unknown], everyone, fresh=True, batch=batch)
        if len(self.changed):
            yield from self.compare(everyone[~unknown], self.changed, fresh=False, batch=batch)

    def compare(self, origins: Rows, targets: Rows, *, fresh: bool, batch: int = BATCH) -> Iterator[None]:
        """Relate origins to targets, a batch with each step; `fresh` replaces what was known of the origins."""
        starts = _find_starts(self.index)
        width = max(1, batch // (QUERIES * int((starts[targets + 1] - starts[targets]).sum() or 1)))
        for begin in range(0, len(origins), width):
            some = origins[begin : begin + width]
            near = compute_cosines(self.index, some, targets)
            near[some[:, None] == targets[None]] = -1  # nobody is a neighbour of itself
            self._keep_nearest(some, targets, near, fresh)
            yield

    def _keep_nearest(self, origins: Rows, targets: Rows, near: Floats, fresh: bool) -> None:
        numbers = np.broadcast_to(targets.astype(np.int32), near.shape)
        if not fresh:
            numbers = np.concatenate([self.numbers[origins], numbers], axis=1)
            near = np.concatenate([self.cosines[origins], near], axis=1)
        missing = KEPT - near.shape[1]
        if missing > 0:
            numbers = np.pad(numbers, ((0, 0), (0, missing)), constant_values=-1)
            near = np.pad(near, ((0, 0), (0, missing)), constant_values=-1)
        best = np.argpartition(-near, KEPT - 1, axis=1)[:, :KEPT]
        near, numbers = np.take_along_axis(near, best, 1), np.take_along_axis(numbers, best, 1)
        order = np.lexsort((numbers, -near), axis=1)
        self.cosines[origins] = np.take_along_axis(near, order, 1)
        self.numbers[origins] = np.where(self.cosines[origins] > -1, np.take_along_axis(numbers, order, 1), -1)
        known = np.full(len(origins), -1, np.float32) if fresh else self.floors[origins]
        self.floors[origins] = np.maximum(known, self.cosines[origins, -1])


class RelationsBuilder:
    """Relates the resources of large indexes; `current` is always complete, and an edit compares only its changes."""

    def __init__(self, large: int = LARGE, batch: int = BATCH) -> None:
        self._large, self._batch = large, batch
        self._base: Relations | None = None  # what the next ones start from: the newest, or a part of the first
        self.current: Relations | None = None

    async def build(self, index: PassageIndex, is_wanted: Callable[[], bool]) -> None:
        """Relate the resources of an index, unless it is small; gives up once it is no longer wanted."""
        if len(index.passages) < self._large or index.missing:
            self.current = self._base = None
            return
        first = self._base is None
        made = await asyncio.to_thread(_begin, self._base, index)
        steps = made.update(self._batch)
        while is_wanted():
            began = time.monotonic()
            if await asyncio.to_thread(_is_finished, steps):
                self.current = self._base = made
                return
            # Half of one core at most: requests matter more than what they can do without.
            await asyncio.sleep(time.monotonic() - began)
        if first:
            self._base = made  # what was compared need not be compared again


def _begin(base: Relations | None, index: PassageIndex) -> Relations:
    return Relations.empty(index) if base is None else base.carry_over(index)


def _is_finished(steps: Iterator[None]) -> bool:
    """Run one more step, unless there is none."""
    return next(steps, steps) is steps


def compute_cosines(index: PassageIndex, origins: Rows, targets: Rows) -> Floats:
    """The best cosine between the first passages of each origin (down) and all passages of each target (across)."""
    starts = _find_starts(index)
    leading = np.minimum(starts[origins + 1], starts[origins] + QUERIES)
    queries = index.vectors.get_vectors(_list_spans(starts[origins], leading))
    heads = np.cumsum(np.concatenate([[0], (leading - starts[origins])[:-1]]))
    rows, sizes = _list_spans(starts[targets], starts[targets + 1]), starts[targets + 1] - starts[targets]
    by_row = np.empty((len(origins), len(rows)), np.float32)
    for begin in range(0, len(rows), TARGETS):
        block = slice(begin, begin + TARGETS)
        scores = queries @ index.vectors.get_vectors(rows[block]).T
        np.maximum.reduceat(scores, heads, axis=0, out=by_row[:, block])
    return round_cosines(np.maximum.reduceat(by_row, np.cumsum(np.concatenate([[0], sizes[:-1]])), axis=1))


def round_cosines(cosines: Floats) -> Floats:
    """Without the last digits, which depend on what else was compared at the same time."""
    return np.round(cosines, DIGITS)


def _find_starts(index: PassageIndex) -> Rows:
    """Where the rows of each resource begin, and where the last one's end."""
    return np.searchsorted(index.owners, np.arange(len(index.numbers) + 1))


def _list_spans(begins: Rows, ends: Rows) -> Rows:
    """The numbers from each begin to its end, one span after the other."""
    sizes = ends - begins
    return np.repeat(begins - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


def _read_contents(index: PassageIndex) -> dict[str, tuple[bytes, ...]]:
    """By resource: the keys of its passages."""
    rows = zip(index.passages, index.keys, strict=True)
    groups = groupby(rows, key=lambda row: row[0].resource)
    return {name: tuple(key for _, key in group) for name, group in groups}
