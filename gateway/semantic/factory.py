"""Opens the parts of semantic search as they are configured. numpy and models are imported where they are needed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gateway.domain.redis_address import SCHEMES, redis_address
from gateway.errors import StoreError
from gateway.fair_queue import FairThreads
from gateway.semantic.model.embedder import Embedder
from gateway.settings import SemanticSettings
from gateway.settings_loader import limit_blas_threads
from gateway.stores.memory_vectors import MemoryVectorStore
from gateway.stores.protocols import VectorStore
from gateway.stores.sqlite_vectors import SqliteVectorStore

if TYPE_CHECKING:
    from gateway.semantic.index.indexer import Indexer, IndexerOptions
    from gateway.semantic.index.nearest import NearestLookup
    from gateway.semantic.search.calibration import Calibration
    from gateway.semantic.search.engine import SemanticEngine

log = logging.getLogger(__name__)


def open_embedder(settings: SemanticSettings, retry_seconds: float = 30.0) -> Embedder:
    """The configured embedder; raises EmbedderUnavailable if its files are not there."""
    configured = settings.embedder
    if configured.kind == "openai":
        from gateway.semantic.model.remote_embedder import EmbeddingEndpoint, RemoteEmbedder

        headers = {"Authorization": f"Bearer {configured.api_key}"} if configured.api_key else {}
        return RemoteEmbedder(EmbeddingEndpoint(configured.base_url or "", configured.model or "", headers))
    from gateway.semantic.model.files import locate_model
    from gateway.semantic.model.onnx_embedder import OnnxEmbedder

    files = locate_model(Path(configured.path) if configured.path else None)
    return OnnxEmbedder(files, retry_seconds=retry_seconds)


def load_calibration(settings: SemanticSettings) -> Calibration:
    """The configured coefficients, or those of the package; raises SemanticError if they cannot be used."""
    from gateway.semantic.search.calibration import Calibration
    from gateway.semantic.search.scoring import FEATURES

    path = settings.calibration
    return Calibration.read(Path(path), FEATURES) if path is not None else Calibration.load()


async def open_vectors(store: str) -> VectorStore:
    """Vectors on the store's server, or in a file of their own beside the store's; else in memory."""
    if store.partition(":")[0].lower() in SCHEMES:
        from gateway.stores.redis_vectors import RedisVectorStore  # a gateway without Redis never imports its client

        return await RedisVectorStore.open(redis_address(store))
    if not store.startswith("sqlite:///"):
        return MemoryVectorStore()
    path = Path(store.removeprefix("sqlite:///"))
    try:
        return await SqliteVectorStore.open(path.with_name(f"{path.stem}-vectors.db"))
    except StoreError as error:
        log.warning("vectors cannot be stored and will be computed again after a restart: %s", error)
        return MemoryVectorStore()


async def open_lookup(store: str, index: str) -> NearestLookup | None:
    """The server that may look up the nearest of many passages; None without one, or if it is not wanted."""
    if index == "local" or store.partition(":")[0].lower() not in SCHEMES:
        return None
    from gateway.semantic.index.redis_index import RedisIndex
    from gateway.stores.redis_connection import RedisConnection

    return RedisIndex(await RedisConnection.open(redis_address(store)), always=index == "redis")


class SemanticFactory(msgspec.Struct, frozen=True):
    """What the service is made of, and how long it waits."""

    open_embedder: Callable[[SemanticSettings], Embedder] = open_embedder
    load_calibration: Callable[[SemanticSettings], Calibration] = load_calibration
    open_lookup: Callable[[str, str], Awaitable[NearestLookup | None]] = open_lookup
    indexer: IndexerOptions | None = None  # None: its defaults
    retry_seconds: float = 30.0  # until an embedder that could not be used is opened again
    sweep_seconds: float = 86_400.0  # between two removals of unused vectors

    def load(self, settings: SemanticSettings) -> Calibration:
        """Import numpy and what builds on it (a quarter of a second), read the coefficients; call it off the loop."""
        limit_blas_threads()
        import_module("gateway.semantic.search.engine")
        return self.load_calibration(settings)

    def make_indexer(self, vectors: VectorStore) -> Indexer:
        from gateway.semantic.index.indexer import DEFAULT_INDEXER_OPTIONS, Indexer

        return Indexer(vectors, self.indexer or DEFAULT_INDEXER_OPTIONS)

    def make_engine(
        self,
        indexer: Indexer,
        settings: SemanticSettings,
        calibration: Calibration,
        lookup: NearestLookup | None,
        threads: FairThreads,
    ) -> SemanticEngine:
        from gateway.semantic.search.engine import SemanticEngine

        return SemanticEngine(indexer, settings, calibration, lookup, threads=threads)


DEFAULT_FACTORY = SemanticFactory()
