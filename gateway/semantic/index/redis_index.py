"""The nearest passages of large sets, looked up by the query engine of the server that keeps the store.

The server proposes, this gateway decides: what comes back is looked for among the rows that the caller may see, and
scored here. Whatever goes wrong there, the same passages are looked up here.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gateway.errors import StoreError
from gateway.semantic.index.lexical import terms
from gateway.semantic.index.nearest import NEAREST, Nearby
from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.index.redis_layout import Layout, word_tag
from gateway.semantic.index.redis_writer import RedisWriter
from gateway.semantic.index.vector_index import Rows
from gateway.semantic.search.scoring import Floats
from gateway.semantic.search.view import IndexView
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_passages import PassageFilter, PassageQuery

SERVED = 250_000  # visible passages from which a server should be faster: 8 ms a sentence, and 5 per 100,000 here
ANSWER_SECONDS = 0.08  # what a question waits for the server; the rest of its time is enough to look here
LOOK_SECONDS = 1.0  # between two looks at whether there is a newer index
RETRY_SECONDS = 5.0  # after the server could not be used
WORDS = 16  # of a question that are looked up

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How the rows of one view are looked up."""

    there: tuple[tuple[int, PassageFilter | None], ...]  # by part of the layout: what may be found
    here: Rows  # in no part of the server


class RedisIndex:
    """Keeps large parts of the newest index on a server, and asks it for the nearest passages of a question."""

    def __init__(self, link: RedisConnection, *, always: bool = False) -> None:
        self._link, self._always = link, always  # always: for sets of any size, and for words too
        self._writer = RedisWriter(link, worded=always)
        self._layout: Layout | None = None  # what the server has, completely
        self._plans: WeakKeyDictionary[IndexView, Plan | None] = WeakKeyDictionary()
        self._lost = asyncio.Event()
        self._quiet_until = 0.0  # a server that is slow now is not asked by every question
        self.answered = self.failed = 0
        self.error: str | None = None  # why it does not now

    @property
    def serving(self) -> PassageIndex | None:
        """The index that the server has."""
        return self._layout.indexed if self._layout is not None else None

    async def run(self, newest: Callable[[], PassageIndex | None]) -> None:
        """Bring the newest complete index to the server, again whenever it has lost it, until cancelled."""
        while True:
            indexed, pause = newest(), LOOK_SECONDS
            if indexed is not None and not indexed.missing and indexed is not self.serving:
                pause = LOOK_SECONDS if await self._bring(indexed, newest) else RETRY_SECONDS
            self._lost.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._lost.wait()

    async def near(self, view: IndexView, sentences: Sequence[str], vectors: Floats) -> Nearby | None:
        """The nearest passages of a view; None: they have to be looked up here."""
        layout = self._layout
        if layout is None or view.indexed is not layout.indexed or time.monotonic() < self._quiet_until:
            self.failed += self.error is not None
            return None
        if view not in self._plans:
            self._plans[view] = await asyncio.to_thread(self._plan, layout, view)
        plan = self._plans[view]
        if plan is None:
            return None
        words = self._words(sentences)
        try:
            found = [await self._found(layout, part, allowed, vectors, words) for part, allowed in plan.there]
        except StoreError as error:
            self._give_up(error)
            self.failed += 1
            self._quiet_until = time.monotonic() + RETRY_SECONDS
            return None
        self.answered += 1
        return await asyncio.to_thread(joined, view, plan.here, found, vectors)

    async def close(self) -> None:
        await self._link.close()

    @property
    def _least(self) -> int:
        return 1 if self._always else SERVED

    def _words(self, sentences: Sequence[str]) -> list[str]:
        """Those of the whole question, which comes first."""
        return list(dict.fromkeys(map(word_tag, terms(sentences[0]))))[:WORDS] if self._always else []

    def _plan(self, layout: Layout, view: IndexView) -> Plan | None:
        """None where too little of what is visible lies on the server, or too many tags would be needed."""
        parts = layout.part_of[view.rows]
        visible = np.bincount(parts[parts >= 0], minlength=len(layout.parts))
        asked = [int(part) for part in np.flatnonzero(visible >= self._least)]
        try:
            there = tuple((part, layout.allowed(part, view.rows[parts == part])) for part in asked)
        except ValueError:
            return None
        return Plan(there, view.rows[~np.isin(parts, asked)]) if there else None

    async def _found(
        self, layout: Layout, number: int, allowed: PassageFilter | None, vectors: Floats, words: Sequence[str]
    ) -> list[list[int]]:
        """The rows of a part that are nearest to each sentence, then those with the best of the words."""
        part = layout.parts[number]
        lookup = PassageQuery([vector.astype("<f2").tobytes() for vector in vectors], words, allowed, NEAREST)
        state, found = await self._writer.passages(layout, part).search(lookup, ANSWER_SECONDS)
        if state != part.fingerprint:
            raise StoreError("The server has lost the index, or has another one.")
        return [[part.ids[one] for one in ids if one in part.ids] for ids in found]

    async def _bring(self, indexed: PassageIndex, newest: Callable[[], PassageIndex | None]) -> bool:
        try:
            layout = await asyncio.to_thread(Layout.of, indexed, self._least)
            for part in layout.parts:
                if not await self._writer.bring(layout, part, lambda: newest() is indexed):
                    return False
            if layout.parts:
                await self._writer.sweep()
        except StoreError as error:
            self._give_up(error)
            return False
        if self.error is not None:
            log.warning("passages are looked up on the server again")
        self._layout, self.error = layout, None
        return True

    def _give_up(self, error: StoreError) -> None:
        """Look up here until the server has been seen to be all right; why is said once."""
        if self.error is None:
            log.warning("passages are looked up here and not on the server: %s", error)
        self.error, self._layout = str(error), None
        self._lost.set()


def joined(view: IndexView, here: Rows, found: Sequence[Sequence[Sequence[int]]], vectors: Floats) -> Nearby:
    """What was found there and here, as far as the view shows it, and how near the rest may be."""
    index = view.indexed.index
    bounds = np.full(len(vectors), -1, np.float32)
    seen = [np.empty(0, np.intp)]
    for part in found:
        rows = [_visible(view, some) for some in part]
        seen += rows
        for number, (vector, nearest) in enumerate(zip(vectors, rows, strict=False)):  # the words have no vector
            if len(nearest):
                bounds[number] = max(bounds[number], index.scores_for(vector[None], nearest).min())
    if len(here):
        scores, rows_here = index.search(vectors, NEAREST, here)
        seen.append(rows_here.ravel())
        bounds = np.maximum(bounds, scores[:, -1])
    return Nearby(np.searchsorted(view.rows, np.unique(np.concatenate(seen))), bounds)


def _visible(view: IndexView, rows: Sequence[int]) -> Rows:
    """Those of the rows that the view shows: a server is not what decides about that."""
    asked = np.array(rows, np.intp)
    places = np.minimum(np.searchsorted(view.rows, asked), len(view.rows) - 1)
    shown: Rows = asked[view.rows[places] == asked]
    return shown
