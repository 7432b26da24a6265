"""The nearest passages of large sets, looked up by the query engine of the Redis server that holds the store.

The server proposes, this gateway decides: what comes back is looked for among the rows that the caller may see, and
scored here. Whatever goes wrong there, the same passages are looked up here.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from gateway.errors import StoreError
from gateway.semantic.index.lexical import extract_terms
from gateway.semantic.index.nearest import NEAREST, NearestPassages, VisibleRows
from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.index.redis_writer import RedisLayout, RedisWriter, WriterOptions, hash_word
from gateway.semantic.index.vector_index import Floats, Rows
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_passages import PassageFilter, PassageQuery

SERVED = 250_000  # visible passages from which a server should be faster: 8 ms a sentence, and 5 per 100,000 here
WORDS = 16  # of a question that are looked up

log = logging.getLogger(__name__)


class LookupOptions(msgspec.Struct, frozen=True):
    """How long lookups wait."""

    answer_seconds: float = 0.08  # what a question waits for the server; the rest of its time is enough to look here
    poll_seconds: float = 1.0  # between two looks at whether there is a newer index
    retry_seconds: float = 5.0  # after the server could not be used
    writer: WriterOptions = msgspec.field(default_factory=WriterOptions)


DEFAULT_LOOKUP_OPTIONS = LookupOptions()


class PartitionFilter(msgspec.Struct, frozen=True):
    """A partition of the layout, by number, and what of it may be found (None: all)."""

    number: int
    allowed: PassageFilter | None


class LookupPlan(msgspec.Struct, frozen=True, eq=False):
    """How the visible rows of one scope are looked up."""

    there: tuple[PartitionFilter, ...]
    here: Rows  # in no partition of the server


class RedisIndex:
    """Keeps large parts of the newest index on a server, and asks it for the nearest passages of a question."""

    def __init__(
        self, connection: RedisConnection, *, always: bool = False, options: LookupOptions = DEFAULT_LOOKUP_OPTIONS
    ) -> None:
        self._connection, self._always = connection, always  # always: for sets of any size, and for words too
        self._writer = RedisWriter(connection, options.writer, with_words=always)
        self._layout: RedisLayout | None = None  # what the server has, completely
        self._plans: WeakKeyDictionary[VisibleRows, LookupPlan | None] = WeakKeyDictionary()
        self._lost = asyncio.Event()
        self._paused_until = 0.0  # a server that is slow now is not asked by every question
        self.options = options
        self.answered = self.failed = 0
        self.error: str | None = None  # why the server is not used now

    @property
    def stored_index(self) -> PassageIndex | None:
        """The index that the server has, completely."""
        return self._layout.index if self._layout is not None else None

    async def run(self, get_newest: Callable[[], PassageIndex | None]) -> None:
        """Write the newest complete index to the server, again whenever it has lost it, until cancelled."""
        while True:
            index, pause = get_newest(), self.options.poll_seconds
            if index is not None and not index.missing and index is not self.stored_index:
                written = await self._write(index, get_newest)
                pause = self.options.poll_seconds if written else self.options.retry_seconds
            self._lost.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._lost.wait()

    async def find_nearest(
        self, visible: VisibleRows, sentences: Sequence[str], vectors: Floats
    ) -> NearestPassages | None:
        """The nearest visible passages; None: look them up here."""
        layout = self._layout
        if layout is None or visible.index is not layout.index or time.monotonic() < self._paused_until:
            self.failed += self.error is not None
            return None
        if visible not in self._plans:
            self._plans[visible] = await asyncio.to_thread(self._plan, layout, visible)
        plan = self._plans[visible]
        if plan is None:
            return None
        words = self._hash_words(sentences)
        try:
            found = [await self._search(layout, one, vectors, words) for one in plan.there]
        except StoreError as error:
            self._give_up(error)
            self.failed += 1
            self._paused_until = time.monotonic() + self.options.retry_seconds
            return None
        self.answered += 1
        return await asyncio.to_thread(merge_found, visible, plan.here, found, vectors)

    async def close(self) -> None:
        await self._connection.close()

    @property
    def _least(self) -> int:
        return 1 if self._always else SERVED

    def _hash_words(self, sentences: Sequence[str]) -> list[str]:
        """Those of the whole question, which comes first."""
        return list(dict.fromkeys(map(hash_word, extract_terms(sentences[0]))))[:WORDS] if self._always else []

    def _plan(self, layout: RedisLayout, visible: VisibleRows) -> LookupPlan | None:
        """None where the server has too little of what is visible, or too many tags would be needed."""
        partitions = layout.partition_of[visible.rows]
        counts = np.bincount(partitions[partitions >= 0], minlength=len(layout.partitions))
        asked = [int(number) for number in np.flatnonzero(counts >= self._least)]
        try:
            there = tuple(
                PartitionFilter(number, layout.build_filter(number, visible.rows[partitions == number]))
                for number in asked
            )
        except ValueError:
            return None
        return LookupPlan(there, visible.rows[~np.isin(partitions, asked)]) if there else None

    async def _search(
        self, layout: RedisLayout, part: PartitionFilter, vectors: Floats, words: Sequence[str]
    ) -> list[list[int]]:
        """The rows of a partition that are nearest to each sentence, then those with the best of the words."""
        partition = layout.partitions[part.number]
        query = PassageQuery([vector.astype("<f2").tobytes() for vector in vectors], words, part.allowed, NEAREST)
        passages = self._writer.open_passages(layout, partition)
        state, found = await passages.search(query, self.options.answer_seconds)
        if state != partition.fingerprint:
            raise StoreError("The server has lost the index, or has another one.")
        return [[partition.ids[one] for one in ids if one in partition.ids] for ids in found]

    async def _write(self, index: PassageIndex, get_newest: Callable[[], PassageIndex | None]) -> bool:
        """Whether the server has all of an index; False if that failed or is no longer wanted."""
        try:
            layout = await asyncio.to_thread(RedisLayout.build, index, self._least)
            for partition in layout.partitions:
                if not await self._writer.write(layout, partition, lambda: get_newest() is index):
                    return False
            if layout.partitions:
                await self._writer.sweep()
        except StoreError as error:
            self._give_up(error)
            return False
        if self.error is not None:
            log.warning("passages are looked up on the server again")
        self._layout, self.error = layout, None
        return True

    def _give_up(self, error: StoreError) -> None:
        """Look up here until the server works again; the reason is logged once."""
        if self.error is None:
            log.warning("passages are looked up here and not on the server: %s", error)
        self.error, self._layout = str(error), None
        self._lost.set()


def merge_found(
    visible: VisibleRows, here: Rows, found: Sequence[Sequence[Sequence[int]]], vectors: Floats
) -> NearestPassages:
    """What was found there and here, as far as it is visible, and how near the rest may be."""
    index = visible.index.vectors
    bounds = np.full(len(vectors), -1, np.float32)
    seen = [np.empty(0, np.intp)]
    for part in found:
        rows = [_keep_visible(visible, some) for some in part]
        seen += rows
        for number, (vector, nearest) in enumerate(zip(vectors, rows, strict=False)):  # the words have no vector
            if len(nearest):
                bounds[number] = max(bounds[number], index.compute_scores(vector[None], nearest).min())
    if len(here):
        scores, rows_here = index.search(vectors, NEAREST, here)
        seen.append(rows_here.ravel())
        bounds = np.maximum(bounds, scores[:, -1])
    return NearestPassages(np.searchsorted(visible.rows, np.unique(np.concatenate(seen))), bounds)


def _keep_visible(visible: VisibleRows, rows: Sequence[int]) -> Rows:
    """Those of the rows that are visible: the server does not decide about that."""
    asked = np.array(rows, np.intp)
    places = np.minimum(np.searchsorted(visible.rows, asked), len(visible.rows) - 1)
    shown: Rows = asked[visible.rows[places] == asked]
    return shown
