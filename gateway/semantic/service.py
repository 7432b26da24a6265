"""The semantic engine as the gateway runs it: nothing is imported or loaded before there is something to find."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from gateway.domain.agent import SelectionSettings
from gateway.domain.redis_address import SCHEMES, redis_address
from gateway.domain.resource import Mode, Resource
from gateway.domain.search import Question, SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.errors import StoreError
from gateway.semantic.index.holdings import Holdings, id_of
from gateway.semantic.model.embedder import Embedder, SemanticError
from gateway.settings import SemanticSettings, limit_blas_threads
from gateway.stores.vectors import MemoryVectors, SqliteVectors, VectorStore

if TYPE_CHECKING:
    from gateway.semantic.index.indexer import Indexer
    from gateway.semantic.index.nearest import NearestLookup
    from gateway.semantic.search.engine import SemanticEngine

WARM_UP = "warm up"
RETRY_SECONDS = 30.0  # until an embedder that could not be used is opened again
SWEEP_SECONDS = 86_400.0
NO_WORKSPACES: Mapping[str, Snapshot] = MappingProxyType({})

log = logging.getLogger(__name__)


class SemanticService:
    """An Engine that builds the real one in the background; until then every resource is pending."""

    def __init__(
        self, settings: SemanticSettings, vectors: Callable[[], Awaitable[VectorStore]], store: str = ""
    ) -> None:
        self._settings = settings
        self._open_vectors = vectors
        self._store = store  # whose server may look up passages
        self._wanted = Holdings.none()
        self._submitted: dict[int, Mapping[str, Resource]] = {}  # by number: those wanted and those that serve
        self._needed = asyncio.Event()
        self._ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._vectors: VectorStore | None = None
        self.error: str | None = None  # why there is no engine
        self.embedder: Embedder | None = None
        self.engine: SemanticEngine | None = None
        self.indexer: Indexer | None = None
        self.lookup: NearestLookup | None = None

    def submit(self, base: Snapshot, workspaces: Mapping[str, Snapshot] = NO_WORKSPACES) -> None:
        """Index these policies from now on: those of the files, and of each workspace that stores some of its own.

        Called on the loop, returns at once. A resource of a workspace is its own unless it equals the files'.
        """
        self._wanted = wanted = self._wanted.followed(base, workspaces)
        serving = self.engine.generation if self.engine is not None else None
        self._submitted = {number: kept for number, kept in self._submitted.items() if number == serving}
        self._submitted[wanted.number] = wanted.resources
        if any(resource.mode is Mode.SEMANTIC for resource in wanted.resources.values()):
            self.begin()
        self._pass_on()

    @property
    def wanted(self) -> bool:
        """Whether the engine is built, now or as soon as it can be."""
        return self._needed.is_set()

    def begin(self) -> None:
        """Build the engine although nobody has searched yet."""
        self._needed.set()

    async def run(self) -> None:
        """Build the engine once something can be found, then keep its index up to date, until cancelled."""
        await self._needed.wait()
        await self._build_patiently()
        assert self.indexer is not None
        assert self.engine is not None
        async with asyncio.TaskGroup() as jobs:
            jobs.create_task(self.indexer.run())
            jobs.create_task(self.engine.relate())
            jobs.create_task(self._follow())
            jobs.create_task(self._sweep())
            if self.lookup is not None:
                jobs.create_task(self.lookup.run(lambda: self.indexer.current if self.indexer is not None else None))

    async def settled(self) -> None:
        """Return once the policies that were submitted last can be searched."""
        await self._ready.wait()
        assert self.indexer is not None
        assert self.engine is not None
        await self.indexer.settled()
        await self.engine.catch_up()

    @property
    def cache_counts(self) -> dict[tuple[str, ...], float]:
        """Sentences by whether their vector was known."""
        cache = self.engine.cache if self.engine is not None else None
        return {("hit",): cache.hits, ("miss",): cache.misses} if cache is not None else {}

    @property
    def lookup_counts(self) -> dict[tuple[str, ...], float]:
        """Questions by whether the server that should have looked up passages did so."""
        lookup = self.lookup
        return {("answered",): lookup.answered, ("failed",): lookup.failed} if lookup is not None else {}

    async def find(
        self, workspace: str, question: Question, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        if self.engine is None:
            return SearchResult(reason="unavailable" if self.error else None, pending=frozenset(resources))
        keys = self._wanted.keys(workspace, resources)
        edited = self._edited(keys)
        found = await self.engine.find(workspace, question, keys, settings)
        pending = found.pending | edited
        return replace(found, pending=frozenset(map(id_of, pending))) if pending else found

    async def rank(self, workspace: str, query: str, resources: Sequence[str]) -> list[str] | None:
        if self.engine is None:
            self.begin()  # a model searches: from now on it is worth it
            return None
        return await self.engine.rank(workspace, query, self._wanted.keys(workspace, resources))

    async def passages(self, workspace: str, query: str, resource: str) -> list[str]:
        if self.engine is None:
            self.begin()
            return []
        (key,) = self._wanted.keys(workspace, [resource])
        return await self.engine.passages(workspace, query, key)

    async def close(self) -> None:
        if self.embedder is not None:
            await self.embedder.close()
        if self._vectors is not None:
            await self._vectors.close()
        if self.lookup is not None:
            await self.lookup.close()

    def _pass_on(self) -> None:
        """Let the indexer have what is wanted, once there is one."""
        if self.indexer is not None and self.embedder is not None and self._wanted.number:
            self.indexer.submit(self._wanted.number, self.embedder, self._wanted.resources.values())
            self._changed.set()

    def _edited(self, keys: Sequence[str]) -> frozenset[str]:
        """What has changed since the index that serves was made: it may be found by what it no longer says."""
        assert self.engine is not None
        serving, wanted = self.engine.generation, self._wanted
        if serving is None or serving == wanted.number:
            return frozenset()
        former = self._submitted.get(serving, {})
        return frozenset(key for key in keys if former.get(key) != wanted.resources.get(key))

    async def _build_patiently(self) -> None:
        """Build the engine, again and again while its parts cannot be used; why is said once."""
        while True:
            try:
                await self._build()
            except SemanticError as error:
                if str(error) != self.error:
                    log.warning("semantic resources stay on demand: %s", error)
                self.error = str(error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self.error = None
                return

    async def _build(self) -> None:
        # numpy and what builds on it take a quarter of a second: gateways without such resources never pay it.
        indexer_of, engine_of = await asyncio.to_thread(load_engine, self._settings.calibration)
        embedder = await asyncio.to_thread(open_embedder, self._settings)
        try:
            await embedder.embed([WARM_UP])  # loads the model: the first question would wait for it in vain
        except SemanticError:
            await embedder.close()
            raise
        self.embedder, self._vectors = embedder, await self._open_vectors()
        self.indexer = indexer_of(self._vectors)
        self.lookup = await open_lookup(self._store, self._settings.index)
        self.engine = engine_of(self.indexer, self._settings, self.lookup)
        self._pass_on()
        self._ready.set()

    async def _follow(self) -> None:
        """Let every new index serve as soon as it is there, not when somebody asks."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.settled()

    async def _sweep(self) -> None:
        """Forget vectors that nothing has used for a long time, once a day."""
        assert self._vectors is not None
        assert self.indexer is not None
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.indexer.use()
                await self._vectors.sweep()
            except StoreError as error:
                log.warning("unused vectors stay for another day: %s", error)


def load_engine(
    fitted: str | None,
) -> tuple[
    Callable[[VectorStore], Indexer], Callable[[Indexer, SemanticSettings, NearestLookup | None], SemanticEngine]
]:
    """The parts that import numpy; raises SemanticError for a file of coefficients that cannot be used."""
    limit_blas_threads()
    from gateway.semantic.index.indexer import Indexer
    from gateway.semantic.search.calibration import Calibration
    from gateway.semantic.search.engine import SemanticEngine
    from gateway.semantic.search.scoring import FEATURES

    calibration = Calibration.read(Path(fitted), FEATURES) if fitted is not None else Calibration.load()
    return Indexer, lambda indexer, settings, lookup: SemanticEngine(indexer, settings, calibration, lookup)


def open_embedder(settings: SemanticSettings) -> Embedder:
    """The configured embedder; raises EmbedderUnavailable if its files are not there."""
    wanted = settings.embedder
    if wanted.kind == "openai":
        from gateway.semantic.model.remote_embedder import Endpoint, RemoteEmbedder

        headers = {"Authorization": f"Bearer {wanted.api_key}"} if wanted.api_key else {}
        return RemoteEmbedder(Endpoint(wanted.base_url or "", wanted.model or "", headers))
    from gateway.semantic.model.files import locate
    from gateway.semantic.model.onnx_embedder import OnnxEmbedder

    return OnnxEmbedder(locate(Path(wanted.path) if wanted.path else None))


async def open_vectors(store: str) -> VectorStore:
    """Vectors are kept on the store's server, or in a file of their own beside the store's; else in memory."""
    if store.partition(":")[0].lower() in SCHEMES:
        from gateway.stores.redis_connection import RedisConnection  # a gateway without Redis never imports its client
        from gateway.stores.redis_vectors import CALL_SECONDS, RedisVectors

        return RedisVectors(await RedisConnection.open(redis_address(store), budget=CALL_SECONDS))
    if not store.startswith("sqlite:///"):
        return MemoryVectors()
    path = Path(store.removeprefix("sqlite:///"))
    try:
        return await SqliteVectors.open(path.with_name(f"{path.stem}-vectors.db"))
    except StoreError as error:
        log.warning("vectors cannot be stored and will be made anew after a restart: %s", error)
        return MemoryVectors()


async def open_lookup(store: str, index: str) -> NearestLookup | None:
    """The server that may look up the nearest of many passages; None where there is none, or it is not wanted."""
    if index == "local" or store.partition(":")[0].lower() not in SCHEMES:
        return None
    from gateway.semantic.index.redis_index import RedisIndex
    from gateway.stores.redis_connection import RedisConnection

    return RedisIndex(await RedisConnection.open(redis_address(store)), always=index == "redis")
