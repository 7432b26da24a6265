"""Which resources of an index are near to which: made once, so that an expansion looks up what it would compare."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.index.vector_index import Rows, Vectors

QUERIES = 5  # passages of a resource that lead on
KEPT = 32  # neighbours of a resource; what an expansion finds none enough of among them is compared after all
AT_ONCE = 12_000_000  # cosines between two pauses: a fifth of a second
TARGETS = 4096  # rows that are compared at once, which keeps them in the cache

DIGITS = 5

Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """For each resource, by its number, the nearest others, nearest first."""

    indexed: PassageIndex
    numbers: Numbers  # resource × place: the neighbour's number, -1 where there are no more
    cosines: Vectors
    floors: Vectors  # by resource: all that is nearer than this is among its neighbours; 1 while it was not compared

    @classmethod
    def none(cls, indexed: PassageIndex) -> Self:
        """Nothing is known yet."""
        count = len(indexed.numbers)
        shape = (count, KEPT)
        return cls(indexed, np.full(shape, -1, np.int32), np.full(shape, -1, np.float32), np.ones(count, np.float32))

    def carried_to(self, indexed: PassageIndex) -> tuple["Relations", Rows]:
        """The same for a newer index, and the numbers of its resources that are new or changed."""
        made, mine, theirs = Relations.none(indexed), _contents(self.indexed), _contents(indexed)
        same = [name for name in theirs if mine.get(name) == theirs[name]]
        former = np.array([self.indexed.numbers[name] for name in same], np.intp)
        newer = np.array([indexed.numbers[name] for name in same], np.intp)
        translated = np.full(len(self.indexed.numbers) + 1, -1, np.int32)  # the last stands for "no more"
        translated[former] = newer
        made.numbers[newer] = translated[self.numbers[former]]
        made.cosines[newer] = np.where(made.numbers[newer] >= 0, self.cosines[former], -1)
        made.floors[newer] = self.floors[former]
        changed = np.ones(len(indexed.numbers), np.bool_)
        changed[newer] = False
        return made, np.flatnonzero(changed)

    def steps(self, changed: Rows) -> Iterator[None]:
        """Bring in what has changed, part by part: from it and from all that was not compared yet, then to it."""
        everyone = np.arange(len(self.numbers))
        unknown = self.floors >= 1
        yield from self._compared(everyone[unknown], everyone, fresh=True)
        if len(changed):
            yield from self._compared(everyone[~unknown], changed, fresh=False)

    def _compared(self, origins: Rows, targets: Rows, fresh: bool) -> Iterator[None]:
        starts = _starts(self.indexed)
        width = max(1, AT_ONCE // (QUERIES * int((starts[targets + 1] - starts[targets]).sum() or 1)))
        for begin in range(0, len(origins), width):
            some = origins[begin : begin + width]
            near = cosines(self.indexed, some, targets)
            near[some[:, None] == targets[None]] = -1  # nobody is a neighbour of itself
            self._keep(some, targets, near, fresh)
            yield

    def _keep(self, origins: Rows, targets: Rows, near: Vectors, fresh: bool) -> None:
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


def cosines(indexed: PassageIndex, origins: Rows, targets: Rows) -> Vectors:
    """The best cosine between the first passages of each origin (down) and all passages of each target (across)."""
    starts = _starts(indexed)
    leading = np.minimum(starts[origins + 1], starts[origins] + QUERIES)
    queries = indexed.index.vectors_of(_spans(starts[origins], leading))
    heads = np.cumsum(np.concatenate([[0], (leading - starts[origins])[:-1]]))
    rows, sizes = _spans(starts[targets], starts[targets + 1]), starts[targets + 1] - starts[targets]
    by_row = np.empty((len(origins), len(rows)), np.float32)
    for begin in range(0, len(rows), TARGETS):
        block = slice(begin, begin + TARGETS)
        scores = queries @ indexed.index.vectors_of(rows[block]).T
        np.maximum.reduceat(scores, heads, axis=0, out=by_row[:, block])
    return rounded(np.maximum.reduceat(by_row, np.cumsum(np.concatenate([[0], sizes[:-1]])), axis=1))


def rounded(similarities: Vectors) -> Vectors:
    """Without the last digits, which depend on what else was compared at the same time."""
    return np.round(similarities, DIGITS)


def _starts(indexed: PassageIndex) -> Rows:
    """Where the rows of each resource begin, and where the last one's end."""
    return np.searchsorted(indexed.owners, np.arange(len(indexed.numbers) + 1))


def _spans(begins: Rows, ends: Rows) -> Rows:
    """The numbers from each begin to its end, one span after the other."""
    sizes = ends - begins
    return np.repeat(begins - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


def _contents(indexed: PassageIndex) -> dict[str, tuple[bytes, ...]]:
    """By resource what its passages say."""
    rows = zip(indexed.passages, indexed.keys, strict=True)
    groups = groupby(rows, key=lambda row: row[0].resource)
    return {name: tuple(key for _, key in group) for name, group in groups}


LARGE = 2_000  # passages; below, five picks are compared with all of them in 4 ms


class RelationsBuilder:
    """`current` is complete in itself; an edit brings in only what it changed."""

    def __init__(self, large: int = LARGE) -> None:
        self._large = large
        self._base: Relations | None = None  # what the next ones are made from: the newest, or a part of the first
        self.current: Relations | None = None

    async def build(self, indexed: PassageIndex, wanted: Callable[[], bool]) -> None:
        """Relate the resources of an index, unless it is small; gives up once it is no longer wanted."""
        if len(indexed.passages) < self._large or indexed.missing:
            self.current = self._base = None
            return
        first = self._base is None
        made, changed = await asyncio.to_thread(_begun, self._base, indexed)
        steps = made.steps(changed)
        while wanted():
            began = time.monotonic()
            if await asyncio.to_thread(_ended, steps):
                self.current = self._base = made
                return
            # Half of one core at the most: requests are worth more than what they may do without.
            await asyncio.sleep(time.monotonic() - began)
        if first:
            self._base = made  # what was compared need not be compared again


def _begun(base: Relations | None, indexed: PassageIndex) -> tuple[Relations, Rows]:
    if base is None:
        return Relations.none(indexed), np.empty(0, np.intp)
    return base.carried_to(indexed)


def _ended(steps: Iterator[None]) -> bool:
    return next(steps, steps) is steps
