"""Semantic search over a few resources, with an embedder by which texts mean the words in them."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.domain.agent import SelectionSettings
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.search import SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.semantic.factory import SemanticFactory, load_calibration
from gateway.semantic.index.indexer import Indexer, IndexerOptions
from gateway.semantic.model.embedder import Embedder, EmbedderUnavailable, SearchTimeout
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.engine import SemanticEngine
from gateway.semantic.search.scoring import FEATURES
from gateway.semantic.search.sentences import split_query
from gateway.semantic.service import SemanticService
from gateway.settings import SemanticSettings
from gateway.stores.memory_vectors import MemoryVectorStore
from gateway.stores.protocols import VectorStore

WIDTH = 512  # so wide that two words hardly ever meet
# The probability is one half at a cosine of one half: what a test expects can be told from the words alone.
BY_COSINE = Calibration(FEATURES, ("dense",), np.array([20], np.float32), -10.0)


class FakeEmbedder:
    """Records what it is asked; `gate` holds it up, `broken` makes it fail."""

    def __init__(self) -> None:
        self.id = "bag"
        self.width = WIDTH
        self.queries: list[str] = []
        self.passages: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = False
        self.obeys = True  # whether it respects `within`
        self.closed = False

    def normalise(self, text: str) -> str:
        return text

    async def embed(
        self, texts: Sequence[str], within: float | None = None, workspace: str = ""
    ) -> NDArray[np.float32]:
        (self.passages if within is None else self.queries).extend(texts)
        if self.broken:
            raise EmbedderUnavailable("broken")
        try:
            async with asyncio.timeout(within if self.obeys else None):
                await self.gate.wait()
        except TimeoutError:
            raise SearchTimeout("late") from None
        return np.stack([vector(text, self.width) for text in texts])

    async def close(self) -> None:
        self.closed = True


def vector(text: str, width: int = WIDTH) -> NDArray[np.float32]:
    """A dimension per word, at length 1: a cosine is the number of shared words over the root of both numbers."""
    counts = np.zeros(width, np.float32)
    for word in set(re.findall(r"\w+", text.lower()) or [""]):
        counts[int.from_bytes(hashlib.sha256(word.encode()).digest()[:8]) % width] = 1
    return counts / np.linalg.norm(counts)


def resource(
    name: str,
    text: str = "",
    mode: Mode = Mode.SEMANTIC,
    examples: Sequence[str] = (),
    kind: ResourceKind = ResourceKind.REFERENCE,
) -> Resource:
    """A resource of any context (`name` is its id) that is found by its text alone."""
    facts: dict[str, Any] = {"languages": (), "conflict_key": None, "priority": 100, "required": False}
    more: dict[str, Any] = {"readers": (), "truncate": "none", "data": None, "description": "", "mandatory": False}
    return Resource(
        id=name, context=name.split("/")[0], type="text", name=text, mode=mode, kind=kind,
        text="{}" if kind is ResourceKind.TOOL else "",  # the schema of a tool is not what it is found by
        examples=tuple(examples), **facts, **more,
    )  # fmt: skip


class SearchHarness:
    """An engine, what it is made of, and short ways to ask it."""

    def __init__(self, settings: SemanticSettings, embedder: FakeEmbedder) -> None:
        self.embedder = embedder
        self.indexer = Indexer(MemoryVectorStore())
        self.engine = SemanticEngine(self.indexer, settings, BY_COSINE)
        self.generation = 0
        self.names: list[str] = []

    def submit(self, *resources: Resource) -> None:
        self.generation += 1
        self.names = [one.id for one in resources]
        self.indexer.submit(self.generation, self.embedder, resources)

    async def wait_until_indexed(self) -> None:
        async with asyncio.timeout(5):
            await self.indexer.wait_until_indexed()
            await self.engine.catch_up()

    async def find(
        self, text: str, *earlier: str, among: Sequence[str] | None = None, workspace: str = "w", **settings: Any
    ) -> SearchResult:
        names = self.names if among is None else among
        tuned = SelectionSettings.from_data(settings)
        return await self.engine.find(workspace, split_query(text, earlier), names, tuned)

    async def picks(self, text: str, *earlier: str, **more: Any) -> list[str]:
        return [pick.resource for pick in (await self.find(text, *earlier, **more)).picks]


def make_factory(open_embedder: Callable[[SemanticSettings], Embedder], **changes: Any) -> SemanticFactory:
    """What a service is made of in a test: it retries soon, and a calibration is by cosine unless one is configured."""

    def calibrate(settings: SemanticSettings) -> Calibration:
        return load_calibration(settings) if settings.calibration else BY_COSINE

    usual: dict[str, Any] = {"retry_seconds": 0.02, "indexer": IndexerOptions(retry_seconds=0.02)}
    return SemanticFactory(open_embedder, calibrate, **{**usual, **changes})


@asynccontextmanager
async def run_service(service: SemanticService) -> AsyncGenerator[SemanticService]:
    """A service with its background work."""
    running = asyncio.create_task(service.run())
    try:
        yield service
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await service.close()


async def wait_until_indexed(service: SemanticService, seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        await service.wait_until_indexed()


async def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110, what is awaited here is not ours to signal
            await asyncio.sleep(0.001)


def make_snapshot(*resources: Resource) -> Snapshot:
    """A snapshot of nothing but resources."""
    return Snapshot("0" * 64, 1, {}, {}, {}, {}, {one.id: one for one in resources})


async def open_memory_vectors() -> VectorStore:
    return MemoryVectorStore()


@asynccontextmanager
async def open_search(
    resources: Iterable[Resource] = (), embedder: FakeEmbedder | None = None, **settings: Any
) -> AsyncGenerator[SearchHarness]:
    """A search over these resources, indexed; without any, nothing has been submitted."""
    settings = {"milliseconds": 5000, **settings}  # a busy machine is no reason to fail
    search = SearchHarness(SemanticSettings.model_validate(settings), embedder or FakeEmbedder())
    running = asyncio.create_task(search.indexer.run())
    try:
        if given := list(resources):
            search.submit(*given)
            await search.wait_until_indexed()
        yield search
    finally:
        search.embedder.gate.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
