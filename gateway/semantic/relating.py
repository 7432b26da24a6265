"""Keeps the relations of a large index up to date in the background; until they are there, expansions compare."""

import asyncio
import time
from collections.abc import Callable, Iterator

import numpy as np

from gateway.semantic.index import Rows
from gateway.semantic.indexed import Indexed
from gateway.semantic.relations import Relations

LARGE = 2_000  # passages; below, five picks are compared with all of them in 4 ms


class Relating:
    """`current` is complete in itself; an edit brings in only what it changed."""

    def __init__(self, large: int = LARGE) -> None:
        self._large = large
        self._base: Relations | None = None  # what the next ones are made from: the newest, or a part of the first
        self.current: Relations | None = None

    async def build(self, indexed: Indexed, wanted: Callable[[], bool]) -> None:
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


def _begun(base: Relations | None, indexed: Indexed) -> tuple[Relations, Rows]:
    if base is None:
        return Relations.none(indexed), np.empty(0, np.intp)
    return base.carried_to(indexed)


def _ended(steps: Iterator[None]) -> bool:
    return next(steps, steps) is steps
