"""Embeds in this process, off the loop: queries first, in time or not at all."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gateway.fair_queue import FairQueue, FairThreads
from gateway.queue_bounds import BACKGROUND, QueueBounds
from gateway.semantic.model.embedder import EmbedderUnavailable, SearchTimeout
from gateway.semantic.model.files import ModelFiles
from gateway.semantic.model.onnx_model import OnnxModel

MAX_WAITING = 64  # texts of a workspace's queries; two threads embed about that many sentences in 150 ms
# A workspace gets two threads. The third is there for another one: it need not wait for a text to be finished.
BOUNDS = QueueBounds(places=3, each=2, waiting=10_000, spare=3)
# Short texts of a question are one piece of work, of 10 ms at most: between two pieces the event loop may be late.
PIECE_CHARACTERS = 200
TEXT_CHARACTERS = 40  # that take as long as a text takes besides its own
BACKGROUND_PATIENCE = 0.25  # seconds that a text of background work lets queries pass; without end it never came

Argument = TypeVar("Argument")
Result = TypeVar("Result")

log = logging.getLogger(__name__)


class EmbeddingModel(Protocol):
    """A model that is loaded."""

    def normalise(self, text: str) -> str:
        """The text without what its tokenizer does not look at."""
        ...

    def embed_text(self, text: str) -> NDArray[np.float32]:
        """The text's vector, of length 1; blocks."""
        ...


class OnnxEmbedder:
    """An Embedder on threads of its own; the model is loaded by whoever needs it first."""

    def __init__(
        self,
        files: ModelFiles,
        *,
        load: Callable[[ModelFiles], EmbeddingModel] = OnnxModel.load,
        clock: Callable[[], float] = time.monotonic,
        retry_seconds: float = 30.0,  # until a model that could not be loaded is tried again
    ) -> None:
        self._files = files
        self._load = load
        self._clock = clock
        self._threads = FairThreads("embedder", BOUNDS, yields=True, rests=1.0)
        self._model: EmbeddingModel | None = None
        self._loading: asyncio.Task[EmbeddingModel] | None = None
        self._retry_seconds = retry_seconds
        self._failed_at = -retry_seconds
        self._reason = ""
        self._waiting: Counter[str] = Counter()  # texts of queries that have not been answered yet, by workspace
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def id(self) -> str:
        return self._files.id

    def normalise(self, text: str) -> str:
        return self._model.normalise(text) if self._model is not None else text

    async def embed(
        self, texts: Sequence[str], within: float | None = None, workspace: str = ""
    ) -> NDArray[np.float32]:
        if within is None:
            return np.concatenate([await self._embed_in_background(text) for text in texts])
        try:
            async with asyncio.timeout(within), self._hold_background(workspace, len(texts)):
                model = await self._get_model()
                runs = await self._run(workspace, partial(embed_texts, model), group_texts(texts))
                return np.stack([row for run in runs for row in run])
        except TimeoutError:
            raise SearchTimeout(f"The query was not embedded within {within * 1000:.0f} ms.") from None

    def share_cores(self, cores: FairQueue) -> None:
        """Embed only while there is a place among all threads of the process."""
        self._threads.share_cores(cores)

    async def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
        self._threads.close()

    @asynccontextmanager
    async def _hold_background(self, workspace: str, count: int) -> AsyncIterator[None]:
        """Texts of a query, which background work waits for; a query that would wait too long is rejected at once."""
        own = self._waiting[workspace]
        if own and own + count > MAX_WAITING:
            raise SearchTimeout(f"{own} texts are waiting to be embedded.")
        self._waiting[workspace] += count
        self._idle.clear()
        try:
            yield
        finally:
            self._waiting[workspace] -= count
            if not self._waiting[workspace]:
                del self._waiting[workspace]
            if not self._waiting:
                self._idle.set()

    async def _embed_in_background(self, text: str) -> NDArray[np.float32]:
        """One text of background work: it takes one thread, for one text, once no query waits or it has waited long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BACKGROUND_PATIENCE):
                await self._idle.wait()
        model = await self._get_model()
        return np.stack(await self._run(BACKGROUND, model.embed_text, [text]))

    async def _get_model(self) -> EmbeddingModel:
        """The model; callers share one loading, which goes on when they no longer wait for it."""
        if self._model is not None:
            return self._model
        if self._loading is None:
            if self._clock() - self._failed_at < self._retry_seconds:
                raise EmbedderUnavailable(self._reason)
            self._loading = asyncio.create_task(self._load_once())
            # Its error reaches everyone who waits; if nobody does, it is in the log.
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._loading)

    async def _load_once(self) -> EmbeddingModel:
        started = self._clock()
        try:
            (self._model,) = await self._run(BACKGROUND, self._load, [self._files])
        except EmbedderUnavailable as error:
            self._failed_at, self._reason = self._clock(), str(error)
            log.error("the embedding model cannot be used: %s", error)
            raise
        finally:
            self._loading = None
        log.info("embedding model loaded in %.0f ms", (self._clock() - started) * 1000)
        return self._model

    async def _run(
        self, workspace: str, work: Callable[[Argument], Result], arguments: Sequence[Argument]
    ) -> list[Result]:
        """Run `work` on each argument in our threads; any failure of a model means that it cannot be used.

        Outcomes are inspected rather than caught: the libraries raise bare Exceptions for files they cannot read.
        """
        runs = [self._threads.run(workspace, work, argument) for argument in arguments]
        outcomes = await asyncio.gather(*runs, return_exceptions=True)
        results = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        for outcome in outcomes:
            if isinstance(outcome, EmbedderUnavailable):
                raise outcome
            if isinstance(outcome, BaseException):
                raise EmbedderUnavailable(f"The embedding model failed: {outcome}.") from outcome
        return results


def embed_texts(model: EmbeddingModel, texts: Sequence[str]) -> list[NDArray[np.float32]]:
    """The texts' vectors; blocks."""
    return [model.embed_text(text) for text in texts]


def group_texts(texts: Sequence[str]) -> list[list[str]]:
    """The texts in their order, short ones that follow each other together; where there are two, so are the groups."""
    sizes = [len(text) + TEXT_CHARACTERS for text in texts]
    half, size = sum(sizes) / 2, 0
    groups: list[list[str]] = []
    for text, added in zip(texts, sizes, strict=True):
        if not groups or size >= half or size + added > PIECE_CHARACTERS:
            groups.append([])
            size = 0
        groups[-1].append(text)
        size += added
    return groups
