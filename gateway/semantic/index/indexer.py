"""Keeps the index up to date in the background: only what is new is embedded, and the former index serves meanwhile."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from gateway.domain.resource import Resource
from gateway.errors import StoreError
from gateway.semantic.index.passage_index import PassageIndex, Vector
from gateway.semantic.index.passages import Passage, passages_of
from gateway.semantic.model.embedder import Embedder, SemanticError
from gateway.stores.vectors import VectorStore

CHUNK = 8  # passages embedded between two looks at what is wanted now
RETRY_SECONDS = 30.0  # after the embedder failed
LOOK_SECONDS = 30.0  # between two looks at what others have stored
USED_AT_ONCE = 1000  # vectors in memory for nothing but to be marked
# What is done of a long build becomes findable when it has grown by so much: each time costs as much as the whole.
PUBLISH_GROWTH, PUBLISH_PASSAGES = 1.25, 200

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is, in passages; `embedded` of `missing` had to be made, the rest was at hand."""

    total: int = 0
    missing: int = 0
    embedded: int = 0
    error: str | None = None  # why it stands still, if it does

    @property
    def done(self) -> bool:
        return self.embedded == self.missing


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What the index should hold."""

    generation: int
    embedder: Embedder
    resources: tuple[Resource, ...]


class Indexer:
    """Builds one workspace's index; `current` is always complete in itself and never changes, only its place does."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._wanted: Wanted | None = None
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._preferred: frozenset[str] = frozenset()
        self.current: PassageIndex | None = None
        self.progress = Progress()
        self.embedded = 0  # passages, since the start

    def submit(self, generation: int, embedder: Embedder, resources: Iterable[Resource]) -> None:
        """Index these resources from now on; called on the loop, returns at once."""
        self._wanted = Wanted(generation, embedder, tuple(resources))
        self._settled.clear()
        self._changed.set()

    def prefer(self, resources: Collection[str]) -> None:
        """Embed these first: somebody has just asked for what they may hold."""
        self._preferred = frozenset(resources)

    async def settled(self) -> None:
        """Return once what was submitted is indexed."""
        await self._settled.wait()

    async def use(self) -> None:
        """Mark the stored vectors of the current index as used: it reads them once and serves for months."""
        keys = self.current.keys if self.current is not None else ()
        for start in range(0, len(keys), USED_AT_ONCE):
            await self._store.get_many(keys[start : start + USED_AT_ONCE])

    async def run(self) -> None:
        """Build whatever is submitted, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            assert self._wanted is not None
            try:
                if await self._build(self._wanted):
                    self._settled.set()
            except SemanticError as error:
                log.warning("indexing waits for the embedder: %s", error)
                self.progress = replace(self.progress, error=str(error))
                await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            self._changed.set()

    async def _build(self, wanted: Wanted) -> bool:
        """Whether the index was completed; False when something newer is wanted."""
        passages = await asyncio.to_thread(passages_of, wanted.resources)
        keyed = await asyncio.to_thread(_keyed, passages, wanted.embedder.id)
        vectors = await self._at_hand(keyed)
        left = {key: passage for key, passage in keyed.items() if key not in vectors}
        self.progress = Progress(len(passages), len(left))
        due, look = 1.0, time.monotonic() + LOOK_SECONDS
        while left:
            if len(vectors) >= due:
                await self._publish(wanted, passages, vectors, partly=True)
                due = len(vectors) * PUBLISH_GROWTH + PUBLISH_PASSAGES
            if self._wanted is not wanted:
                return False
            vectors |= await self._embed(wanted.embedder, [left.pop(key) for key in self._next(left)])
            if time.monotonic() >= look:
                vectors |= await self._made_elsewhere(left)
                look = time.monotonic() + LOOK_SECONDS
        await self._publish(wanted, passages, vectors)
        return self._wanted is wanted

    async def _at_hand(self, keyed: dict[bytes, Passage]) -> dict[bytes, Vector]:
        """The vectors that need not be made: those of the current index and those that were stored."""
        current = self.current
        vectors = await asyncio.to_thread(current.known, keyed) if current is not None else {}
        return vectors | await self._stored([key for key in keyed if key not in vectors])

    async def _stored(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        try:
            stored = await self._store.get_many(keys)
        except StoreError as error:
            log.warning("stored vectors cannot be read and are made anew: %s", error)
            return {}
        return await asyncio.to_thread(_decoded, stored)

    async def _made_elsewhere(self, left: dict[bytes, Passage]) -> dict[bytes, Vector]:
        """What has come into the store meanwhile: it was away at first, or another gateway embeds the same."""
        found = await self._stored(list(left))
        for key in found:
            del left[key]
        self.progress = replace(self.progress, missing=self.progress.missing - len(found))
        return found

    async def _embed(self, embedder: Embedder, passages: Sequence[Passage]) -> dict[bytes, Vector]:
        rows = await embedder.embed([passage.text for passage in passages])
        made = {passage.key(embedder.id): row for passage, row in zip(passages, rows.astype("<f2"), strict=True)}
        self.embedded += len(made)
        self.progress = replace(self.progress, embedded=self.progress.embedded + len(made), error=None)
        try:
            await self._store.put_many({key: row.tobytes() for key, row in made.items()})
        except StoreError as error:
            log.warning("vectors cannot be stored and will be made anew after a restart: %s", error)
        return made

    def _next(self, left: dict[bytes, Passage]) -> list[bytes]:
        if self._preferred:
            first = (key for key, passage in left.items() if passage.resource in self._preferred)
            if keys := list(islice(first, CHUNK)):
                return keys
            self._preferred = frozenset()
        return list(islice(left, CHUNK))

    async def _publish(
        self, wanted: Wanted, passages: Sequence[Passage], vectors: dict[bytes, Vector], *, partly: bool = False
    ) -> None:
        """Let requests use the new index; half an index only where it does not take away what can be found now."""
        current = self.current
        if partly and current is not None and current.embedder.id != wanted.embedder.id:
            return
        built = await asyncio.to_thread(PassageIndex.build, wanted.generation, wanted.embedder, passages, vectors)
        if not partly or current is None or built.ready.sum() >= current.ready.sum():
            self.current = built


def _keyed(passages: Iterable[Passage], model: str) -> dict[bytes, Passage]:
    keyed: dict[bytes, Passage] = {}
    for passage in passages:
        keyed.setdefault(passage.key(model), passage)
    return keyed


def _decoded(stored: Mapping[bytes, bytes]) -> dict[bytes, Vector]:
    return {key: np.frombuffer(value, "<f2") for key, value in stored.items()}
