"""Keeps the index up to date in the background: only new text is embedded, and the former index serves meanwhile."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice, zip_longest

import msgspec
import numpy as np
from msgspec.structs import replace

from gateway.domain.resource import Resource
from gateway.errors import StoreError
from gateway.semantic.index.indexed_resources import get_workspace
from gateway.semantic.index.passage_index import PassageIndex, Vector
from gateway.semantic.index.passages import Passage, PassageSplitter
from gateway.semantic.index.vector_index import EXACT_LIMIT
from gateway.semantic.model.embedder import Embedder, SemanticError
from gateway.stores.protocols import VectorStore

CHUNK = 8  # passages embedded before the indexer checks for a newer request
# After a build the indexer rests, so that policies that change all the time do not take all the CPU.
REST_SHARE = 2.0  # of the time that the build took
MOST_REST_SECONDS = 2.0
MARKED_AT_ONCE = 1000  # vectors in memory only to be marked as used
# A partial index is published when it has grown by so much: each time costs as much as the whole.
PUBLISH_GROWTH, PUBLISH_PASSAGES = 1.25, 200

log = logging.getLogger(__name__)


class IndexerOptions(msgspec.Struct, frozen=True):
    """How long the indexer waits, and up to how many rows its vectors are compared exactly."""

    retry_seconds: float = 30.0  # after the embedder failed
    poll_seconds: float = 30.0  # between two looks at what other replicas have stored
    exact_limit: int = EXACT_LIMIT


DEFAULT_INDEXER_OPTIONS = IndexerOptions()


class IndexProgress(msgspec.Struct, frozen=True):
    """How far a build is, in passages; `embedded` of `missing` are done, the others had a vector already."""

    total: int = 0
    missing: int = 0
    embedded: int = 0
    error: str | None = None  # why it has stopped, if it has

    @property
    def done(self) -> bool:
        return self.embedded == self.missing


class IndexRequest(msgspec.Struct, frozen=True, eq=False):
    """What to index."""

    generation: int
    embedder: Embedder
    resources: tuple[Resource, ...]


class Indexer:
    """Builds the index. `current` is complete and never changed in place: a newer one replaces it."""

    def __init__(self, store: VectorStore, options: IndexerOptions = DEFAULT_INDEXER_OPTIONS) -> None:
        self._store = store
        self._options = options
        self._splitter = PassageSplitter()
        self._newest: IndexRequest | None = None
        self._changed = asyncio.Event()
        self._done = asyncio.Event()
        self._preferred: frozenset[str] = frozenset()
        self._was_preferred = False  # then it is the others' turn: one workspace's questions must not delay them
        self.current: PassageIndex | None = None
        self.progress = IndexProgress()
        self.embedded = 0  # passages, since the start

    def submit(self, generation: int, embedder: Embedder, resources: Iterable[Resource]) -> None:
        """Index these resources from now on; called on the loop, returns at once."""
        self._newest = IndexRequest(generation, embedder, tuple(resources))
        self._done.clear()
        self._changed.set()

    def prefer(self, resources: Collection[str]) -> None:
        """Embed these first: somebody has just asked for what they may contain."""
        self._preferred = frozenset(resources)

    async def wait_until_indexed(self) -> None:
        """Return once everything that was submitted is indexed."""
        await self._done.wait()

    async def mark_used(self) -> None:
        """Mark the stored vectors of the current index as used: they are read once and may serve for months."""
        keys = self.current.keys if self.current is not None else ()
        for start in range(0, len(keys), MARKED_AT_ONCE):
            await self._store.get_many(keys[start : start + MARKED_AT_ONCE])

    async def run(self) -> None:
        """Build whatever is submitted, until cancelled; one that begins anew goes on with what is not done."""
        if self._newest is not None and not self._done.is_set():
            self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            assert self._newest is not None
            began = time.monotonic()
            try:
                if await self._build(self._newest):
                    self._done.set()
                await asyncio.sleep(min((time.monotonic() - began) * REST_SHARE, MOST_REST_SECONDS))
            except SemanticError as error:
                log.warning("indexing is paused until the embedder works: %s", error)
                self.progress = replace(self.progress, error=str(error))
                await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._options.retry_seconds):
                await self._changed.wait()
        except TimeoutError:
            self._changed.set()

    async def _build(self, request: IndexRequest) -> bool:
        """Whether the index was completed; False when there is a newer request."""
        passages, keys = await asyncio.to_thread(self._splitter.split, request.resources, request.embedder.id)
        by_key = await asyncio.to_thread(_map_by_key, keys, passages)
        vectors = await self._find_known(by_key)
        left = take_turns({key: passage for key, passage in by_key.items() if key not in vectors})
        self.progress = IndexProgress(len(passages), len(left))
        due, next_look, first = 1.0, time.monotonic() + self._options.poll_seconds, len(left)
        while left:
            if len(vectors) >= due:
                await self._publish(request, passages, keys, vectors, partial=True)
                due = len(vectors) * PUBLISH_GROWTH + PUBLISH_PASSAGES
            # Some are embedded in any case: who changes policies all the time must not keep others from being found.
            if self._newest is not request and len(left) < first:
                return False
            vectors |= await self._embed(request.embedder, [left.pop(key) for key in self._choose_next(left)])
            if time.monotonic() >= next_look:
                vectors |= await self._take_newly_stored(left)
                next_look = time.monotonic() + self._options.poll_seconds
        await self._publish(request, passages, keys, vectors)
        return self._newest is request

    async def _find_known(self, by_key: dict[bytes, Passage]) -> dict[bytes, Vector]:
        """The vectors that need not be made: those of the current index and those that were stored."""
        current = self.current
        vectors = await asyncio.to_thread(current.find_vectors, by_key) if current is not None else {}
        return vectors | await self._read_stored([key for key in by_key if key not in vectors])

    async def _read_stored(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        try:
            stored = await self._store.get_many(keys)
        except StoreError as error:
            log.warning("stored vectors cannot be read; computing them again: %s", error)
            return {}
        return await asyncio.to_thread(_decode_vectors, stored)

    async def _take_newly_stored(self, left: dict[bytes, Passage]) -> dict[bytes, Vector]:
        """Take what has come into the store meanwhile: it was down at first, or another replica embeds the same."""
        found = await self._read_stored(list(left))
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
            log.warning("vectors cannot be stored and will be computed again after a restart: %s", error)
        return made

    def _choose_next(self, left: dict[bytes, Passage]) -> list[bytes]:
        self._was_preferred = bool(self._preferred) and not self._was_preferred
        if self._was_preferred:
            first = (key for key, passage in left.items() if passage.resource in self._preferred)
            if keys := list(islice(first, CHUNK)):
                return keys
            self._preferred = frozenset()
        return list(islice(left, CHUNK))

    async def _publish(
        self,
        request: IndexRequest,
        passages: Sequence[Passage],
        keys: Sequence[bytes],
        vectors: dict[bytes, Vector],
        *,
        partial: bool = False,
    ) -> None:
        """Let searches use the new index; a partial one only where nothing that can be found now gets lost."""
        current = self.current
        if partial and current is not None and current.embedder.id != request.embedder.id:
            return
        limit = self._options.exact_limit
        built = await asyncio.to_thread(
            PassageIndex.build, request.generation, request.embedder, passages, vectors, limit, keys
        )
        if not partial or current is None or built.ready.sum() >= current.ready.sum():
            self.current = built


def take_turns(passages: Mapping[bytes, Passage]) -> dict[bytes, Passage]:
    """The passages, one of each workspace after the other: a large set delays nobody's small one."""
    queues: dict[str, list[bytes]] = {}
    for key, passage in passages.items():
        queues.setdefault(get_workspace(passage.resource), []).append(key)
    rounds = zip_longest(*queues.values())
    return {key: passages[key] for turn in rounds for key in turn if key is not None}


def _map_by_key(keys: Sequence[bytes], passages: Sequence[Passage]) -> dict[bytes, Passage]:
    by_key: dict[bytes, Passage] = {}
    for key, passage in zip(keys, passages, strict=True):
        by_key.setdefault(key, passage)
    return by_key


def _decode_vectors(stored: Mapping[bytes, bytes]) -> dict[bytes, Vector]:
    return {key: np.frombuffer(value, "<f2") for key, value in stored.items()}
