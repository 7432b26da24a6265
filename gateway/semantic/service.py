"""Semantic search as the gateway runs it: nothing is imported or loaded before there is something to find."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from gateway.domain.agent import SelectionSettings
from gateway.domain.lru import HitCounter
from gateway.domain.resource import Mode, Resource
from gateway.domain.search import Query, SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.errors import StoreError, WorkspaceBusy
from gateway.fair_queue import CoreUser, FairQueue, FairThreads
from gateway.semantic.document_indexer import DocumentIndexer
from gateway.semantic.factory import DEFAULT_FACTORY, SemanticFactory, open_vectors
from gateway.semantic.index.indexed_resources import IndexedResources, get_resource_id
from gateway.semantic.index.passages import describe_resource
from gateway.semantic.model.embedder import Embedder, SearchTimeout, SemanticError
from gateway.settings import SemanticSettings
from gateway.stores.protocols import VectorStore

if TYPE_CHECKING:
    from gateway.semantic.index.indexer import Indexer
    from gateway.semantic.index.nearest import NearestLookup
    from gateway.semantic.index.vector_index import Floats
    from gateway.semantic.search.engine import SemanticEngine

WARM_UP = "warm up"
NO_WORKSPACES: Mapping[str, Snapshot] = MappingProxyType({})

log = logging.getLogger(__name__)


class EmbeddedQuestion(NamedTuple):
    """The vectors of a question; None if there are none now, and why if something failed."""

    vectors: Floats | None
    reason: str | None = None  # "late" or "unavailable"; None: nobody has to be told


class SemanticService:
    """A SemanticSearcher that builds its engine in the background; until then every resource is pending."""

    def __init__(
        self,
        settings: SemanticSettings,
        open_vectors: Callable[[], Awaitable[VectorStore]],
        store: str = "",
        factory: SemanticFactory = DEFAULT_FACTORY,
        threads: FairThreads | None = None,
        cores: FairQueue | None = None,
    ) -> None:
        self._cores = cores
        self._threads = threads or FairThreads("search")
        self._settings = settings
        self._open_vectors = open_vectors
        self._store = store  # whose server may look up passages
        self._newest = IndexedResources.empty()
        self._submitted: dict[int, Mapping[str, Resource]] = {}  # by generation: the newest and the one that serves
        self._expands = False  # an agent expands what is picked
        self._needed = asyncio.Event()
        self._ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._vectors: VectorStore | None = None
        self._markers: list[Callable[[], Awaitable[None]]] = []  # of vectors that others use
        self._logged = ""
        self.factory = factory
        self.error: str | None = None  # why there is no engine
        self.embedder: Embedder | None = None
        self.engine: SemanticEngine | None = None
        self.indexer: Indexer | None = None
        self.lookup: NearestLookup | None = None
        self.documents = DocumentIndexer(self, self._threads, settings.content_bytes)  # nodes and entities

    def submit(self, base: Snapshot, workspaces: Mapping[str, Snapshot] = NO_WORKSPACES) -> None:
        """Index these policies from now on: those of the files, and of each workspace that stores some of its own.

        Called on the loop, returns at once. A resource of a workspace is its own unless it equals the files'.
        """
        self._newest = newest = self._newest.update(base, workspaces)
        serving = self.engine.generation if self.engine is not None else None
        self._submitted = {number: kept for number, kept in self._submitted.items() if number == serving}
        self._submitted[newest.generation] = newest.resources
        if any(resource.mode is Mode.SEMANTIC for resource in newest.resources.values()):
            self.enable()
        self._expands = self._expands or any(one.expands for one in (base, *workspaces.values()))
        self._enable_expansion()
        self._submit_to_indexer()

    @property
    def enabled(self) -> bool:
        """Whether the engine is built, now or as soon as it can be."""
        return self._needed.is_set()

    def enable(self) -> None:
        """Build the engine: there is something to find, or somebody searches."""
        self._needed.set()

    async def run(self) -> None:
        """Build the engine once something can be found, then keep its index up to date, until cancelled."""
        await self._needed.wait()
        if self.engine is None:
            await self._build_until_it_works()
        assert self.indexer is not None
        assert self.engine is not None
        async with asyncio.TaskGroup() as jobs:
            jobs.create_task(self.indexer.run())
            jobs.create_task(self.engine.update_relations())
            jobs.create_task(self._serve_newest())
            jobs.create_task(self._sweep())
            jobs.create_task(self.documents.run())
            if self.lookup is not None:
                jobs.create_task(self.lookup.run(lambda: self.indexer.current if self.indexer is not None else None))

    async def wait_until_indexed(self) -> None:
        """Return once the policies that were submitted last can be searched."""
        await self._ready.wait()
        assert self.indexer is not None
        assert self.engine is not None
        await self.indexer.wait_until_indexed()
        await self.engine.catch_up()

    @property
    def cache_counts(self) -> dict[tuple[str, ...], float]:
        """Sentences by whether their vector was known."""
        return self.engine.cache.lookups.by_outcome if self.engine is not None else {}

    @property
    def lookups_by_workspace(self) -> Mapping[str, HitCounter]:
        """Hits and misses of the cache of question vectors."""
        return self.engine.cache.lookups_by_workspace if self.engine is not None else {}

    @property
    def lookup_counts(self) -> dict[tuple[str, ...], float]:
        """Questions by whether the server that should have looked up passages did so."""
        lookup = self.lookup
        return {("answered",): lookup.answered, ("failed",): lookup.failed} if lookup is not None else {}

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        if self.engine is None:
            self.enable()  # somebody searches what is on demand, although nothing is semantic
            return SearchResult(reason="unavailable" if self.error else None, pending=frozenset(resources))
        keys = self._newest.get_keys(workspace, resources)
        edited = self._find_edited(keys)
        found = await self.engine.find(workspace, query, keys, settings)
        pending = found.pending | edited
        return replace(found, pending=frozenset(map(get_resource_id, pending))) if pending else found

    async def rank(self, workspace: str, text: str, resources: Sequence[str]) -> list[str] | None:
        if self.engine is None:
            self.enable()  # a model searches: from now on it is worth it
            return None
        return await self.engine.rank(workspace, text, self._newest.get_keys(workspace, resources))

    async def find_passages(self, workspace: str, text: str, resource: str) -> list[str]:
        if self.engine is None:
            self.enable()
            return []
        (key,) = self._newest.get_keys(workspace, [resource])
        return await self.engine.find_passages(workspace, text, key)

    @property
    def threads(self) -> FairThreads:
        return self._threads

    def find_newest(self, workspace: str, name: str) -> Resource | None:
        """A resource as it was submitted last."""
        return self._newest.resources.get(*self._newest.get_keys(workspace, [name]))

    async def read_vectors(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The stored vectors among these; raises StoreError."""
        return await self._vectors.get_many(keys) if self._vectors is not None and keys else {}

    async def score_texts(self, workspace: str, query: Query, texts: Sequence[str]) -> list[float] | None:
        if self.engine is None or self.embedder is None:
            self.enable()
            return None
        within = self._settings.milliseconds / 1000
        return await self.engine.scores.score(self.embedder, workspace, query, texts, within)

    async def embed_question(self, workspace: str, sentences: Sequence[str], within: float) -> EmbeddedQuestion:
        """The vectors of a question, for whoever searches something besides resources; never raises."""
        if self.engine is None or self.embedder is None:
            self.enable()
            return EmbeddedQuestion(None, "unavailable" if self.error else None)
        within = min(within, self._settings.milliseconds / 1000)
        try:
            return EmbeddedQuestion(await self.engine.questions.embed(self.embedder, workspace, sentences, within))
        except SearchTimeout:
            return EmbeddedQuestion(None, "late")
        except (SemanticError, ValueError, WorkspaceBusy) as error:
            if str(error) != self._logged:
                self._logged = str(error)
                log.warning("nodes and entities are found by their words only: %s", error)
            return EmbeddedQuestion(None, "unavailable")

    async def wait_until_built(self) -> None:
        """Return once there is an embedder."""
        await self._ready.wait()

    async def store_vectors(self, vectors: Mapping[bytes, bytes]) -> None:
        """Store vectors for the next start and for other replicas, if the store takes them."""
        assert self._vectors is not None
        try:
            await self._vectors.put_many(vectors)
        except StoreError as error:
            log.warning("vectors cannot be stored and will be computed again after a restart: %s", error)

    def watch_sweep(self, mark_used: Callable[[], Awaitable[None]]) -> None:
        """Have somebody mark its vectors as used before unused ones are removed."""
        self._markers.append(mark_used)

    async def close(self) -> None:
        if self.embedder is not None:
            await self.embedder.close()
        if self._vectors is not None:
            await self._vectors.close()
        if self.lookup is not None:
            await self.lookup.close()

    def _submit_to_indexer(self) -> None:
        """Let the indexer have the newest resources, once there is one."""
        if self.indexer is not None and self.embedder is not None and self._newest.generation:
            self.indexer.submit(self._newest.generation, self.embedder, self._newest.resources.values())
            self._changed.set()

    def _enable_expansion(self) -> None:
        """Let the engine prepare for expansions, once there is one and an agent uses them."""
        if self._expands and self.engine is not None:
            self.engine.enable_expansion()

    def _find_edited(self, keys: Sequence[str]) -> frozenset[str]:
        """What has changed since the index that serves was made: it may be found by what it no longer says."""
        assert self.engine is not None
        serving, newest = self.engine.generation, self._newest
        if serving is None or serving == newest.generation:
            return frozenset()
        former = self._submitted.get(serving, {})
        return frozenset(key for key in keys if is_edited(former.get(key), newest.resources.get(key)))

    async def _build_until_it_works(self) -> None:
        """Build the engine, and retry while its parts cannot be used; each reason is logged once."""
        while True:
            try:
                await self._build()
            except SemanticError as error:
                if str(error) != self.error:
                    log.warning("semantic resources stay on demand: %s", error)
                self.error = str(error)
                await asyncio.sleep(self.factory.retry_seconds)
            else:
                self.error = None
                return

    async def _build(self) -> None:
        factory = self.factory
        calibration = await asyncio.to_thread(factory.load, self._settings)
        embedder = await asyncio.to_thread(factory.open_embedder, self._settings)
        if self._cores is not None and isinstance(embedder, CoreUser):
            embedder.share_cores(self._cores)
        try:
            await embedder.embed([WARM_UP])  # loads the model: the first question would time out waiting for it
        except SemanticError:
            await embedder.close()
            raise
        self.embedder, self._vectors = embedder, await self._open_vectors()
        self.indexer = factory.make_indexer(self._vectors)
        self.lookup = await factory.open_lookup(self._store, self._settings.index)
        self.engine = factory.make_engine(self.indexer, self._settings, calibration, self.lookup, self._threads)
        self._enable_expansion()
        self._submit_to_indexer()
        self._ready.set()

    async def _serve_newest(self) -> None:
        """Let every new index serve as soon as it is there, not when somebody asks."""
        while True:
            await self._changed.wait()
            try:
                self._changed.clear()
                await self.wait_until_indexed()
            except BaseException:
                self._changed.set()  # whoever begins anew has to do it
                raise

    async def _sweep(self) -> None:
        """Remove vectors that nothing has used for a long time, once a day."""
        assert self._vectors is not None
        assert self.indexer is not None
        while True:
            await asyncio.sleep(self.factory.sweep_seconds)
            try:
                await self.indexer.mark_used()
                for mark_used in self._markers:
                    await mark_used()
                await self._vectors.sweep()
            except StoreError as error:
                log.warning("unused vectors could not be removed; retrying in a day: %s", error)


def is_edited(former: Resource | None, newest: Resource | None) -> bool:
    """Whether a resource is found by something else now; asked for every question while an index is being built."""
    if former is newest:
        return False
    return former is None or newest is None or describe_resource(former) != describe_resource(newest)


def open_semantic(
    settings: SemanticSettings, store: str, threads: FairThreads, cores: FairQueue
) -> SemanticService | None:
    """As the configuration wants it; None: there is no semantic search."""
    if not settings.enabled:
        return None
    return SemanticService(settings, lambda: open_vectors(store), store, threads=threads, cores=cores)
