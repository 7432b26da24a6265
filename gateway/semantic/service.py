"""The semantic engine as the gateway runs it: nothing is imported or loaded before there is something to find."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.domain.agent import SelectionSettings
from gateway.domain.pick import Found, Question
from gateway.domain.resource import Mode
from gateway.domain.snapshot import Snapshot
from gateway.semantic.base import Embedder, SemanticError
from gateway.settings import Semantic
from gateway.stores.vectors import MemoryVectors, SqliteVectors, VectorStore

if TYPE_CHECKING:
    from gateway.semantic.engine import SemanticEngine
    from gateway.semantic.indexer import Indexer

WARM_UP = "warm up"
SWEEP_SECONDS = 86_400.0

log = logging.getLogger(__name__)


class SemanticService:
    """An Engine that builds the real one in the background; until then every resource is pending."""

    def __init__(self, settings: Semantic, vectors: Callable[[], Awaitable[VectorStore]]) -> None:
        self._settings = settings
        self._open_vectors = vectors
        self._wanted: Snapshot | None = None
        self._needed = asyncio.Event()
        self._ready = asyncio.Event()
        self._vectors: VectorStore | None = None
        self.error: str | None = None  # why the engine could not be built
        self.embedder: Embedder | None = None
        self.engine: SemanticEngine | None = None
        self.indexer: Indexer | None = None

    def submit(self, snapshot: Snapshot) -> None:
        """Index these policies from now on; called on the loop, returns at once."""
        self._wanted = snapshot
        if any(resource.mode is Mode.SEMANTIC for resource in snapshot.resources.values()):
            self._needed.set()
        if self.indexer is not None and self.embedder is not None:
            self.indexer.submit(snapshot.generation, self.embedder, snapshot.resources.values())

    async def run(self) -> None:
        """Build the engine once something can be found, then keep its index up to date, until cancelled."""
        await self._needed.wait()
        try:
            await self._build()
        except SemanticError as error:
            log.warning("semantic resources stay on demand: %s", error)
            self.error = str(error)
            return
        assert self.indexer is not None
        async with asyncio.TaskGroup() as jobs:
            jobs.create_task(self._warm_up())
            jobs.create_task(self._sweep())
            jobs.create_task(self.indexer.run())

    async def settled(self) -> None:
        """Return once the policies that were submitted last are indexed."""
        await self._ready.wait()
        assert self.indexer is not None
        await self.indexer.settled()

    async def find(
        self, workspace: str, question: Question, resources: Sequence[str], settings: SelectionSettings
    ) -> Found:
        if self.engine is None:
            return Found(pending=frozenset(resources))
        return await self.engine.find(workspace, question, resources, settings)

    async def rank(self, workspace: str, query: str, resources: Sequence[str]) -> list[str] | None:
        if self.engine is None:
            self._needed.set()  # a model searches: from now on it is worth it
            return None
        return await self.engine.rank(workspace, query, resources)

    async def passages(self, workspace: str, query: str, resource: str) -> list[str]:
        if self.engine is None:
            self._needed.set()
            return []
        return await self.engine.passages(workspace, query, resource)

    async def close(self) -> None:
        if self.embedder is not None:
            await self.embedder.close()
        if self._vectors is not None:
            await self._vectors.close()

    async def _build(self) -> None:
        # numpy and what builds on it take a quarter of a second: gateways without such resources never pay it.
        indexer_of, engine_of = await asyncio.to_thread(load_engine, self._settings.calibration)
        self.embedder = await asyncio.to_thread(open_embedder, self._settings)
        self._vectors = await self._open_vectors()
        self.indexer = indexer_of(self._vectors)
        self.engine = engine_of(self.indexer, self._settings)
        if self._wanted is not None:
            self.submit(self._wanted)
        self._ready.set()

    async def _warm_up(self) -> None:
        """Load the model now: the first question would wait for it in vain."""
        assert self.embedder is not None
        try:
            await self.embedder.embed([WARM_UP])
        except SemanticError as error:
            log.warning("semantic resources stay on demand: %s", error)

    async def _sweep(self) -> None:
        """Forget vectors that nothing has used for a long time, once a day."""
        assert self._vectors is not None
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._vectors.sweep()


def load_engine(
    fitted: str | None,
) -> tuple[Callable[[VectorStore], Indexer], Callable[[Indexer, Semantic], SemanticEngine]]:
    """The parts that import numpy; raises SemanticError for a file of coefficients that cannot be used."""
    from gateway.semantic.calibration import Calibration
    from gateway.semantic.engine import SemanticEngine
    from gateway.semantic.indexer import Indexer
    from gateway.semantic.scoring import FEATURES

    calibration = Calibration.read(Path(fitted), FEATURES) if fitted is not None else Calibration.load()
    return Indexer, lambda indexer, settings: SemanticEngine(indexer, settings, calibration)


def open_embedder(settings: Semantic) -> Embedder:
    """The configured embedder; raises EmbedderUnavailable if its files are not there."""
    wanted = settings.embedder
    if wanted.kind == "openai":
        from gateway.semantic.remote_embedder import Endpoint, RemoteEmbedder

        headers = {"Authorization": f"Bearer {wanted.api_key}"} if wanted.api_key else {}
        return RemoteEmbedder(Endpoint(wanted.base_url or "", wanted.model or "", headers))
    from gateway.semantic.embedder import OnnxEmbedder
    from gateway.semantic.model_files import locate

    return OnnxEmbedder(locate(Path(wanted.path) if wanted.path else None))


async def open_vectors(store: str) -> VectorStore:
    """Vectors are kept in a file of their own beside the store's."""
    if not store.startswith("sqlite:///"):
        return MemoryVectors()
    path = Path(store.removeprefix("sqlite:///"))
    return await SqliteVectors.open(path.with_name(f"{path.stem}-vectors.db"))
