"""The vectors of recent sentences: conversations repeat themselves, and a hit costs microseconds."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np

from gateway.domain.lru import HitCounter
from gateway.domain.memory_budget import CachePartition, MemoryBudget
from gateway.domain.normal_form import normalize_text
from gateway.semantic.index.vector_index import Floats
from gateway.semantic.model.embedder import Embedder

VECTOR_BYTES = 200  # of a vector besides its numbers

SentenceKey = tuple[str, bytes]  # the embedder's id, and a hash


class QueryCache:
    """Vectors by model, workspace and sentence.

    Each workspace has its own: no fast answer tells one workspace what another has asked, and a flood of questions
    pushes out nobody else's.
    """

    def __init__(self, memory: MemoryBudget | None = None) -> None:
        self._memory = memory or MemoryBudget()
        self._partitions: dict[str, CachePartition] = {}
        self._running: dict[tuple[str, SentenceKey], asyncio.Future[Floats | None]] = {}  # None: not embedded after all
        self.lookups = HitCounter()
        self.lookups_by_workspace: dict[str, HitCounter] = {}

    async def embed(self, embedder: Embedder, workspace: str, sentences: Sequence[str], within: float) -> Floats:
        """One row per sentence; raises what the embedder raises when it has to be asked.

        Whoever asks for a sentence that is being embedded for another waits for that.
        """
        kept, lookups = self._open(workspace)
        normal = [normalise_sentence(sentence) for sentence in sentences]
        wanted = [make_key(embedder, text) for text in normal]  # once: a model's normal form takes 0.1 ms
        texts = dict(zip(reversed(wanted), reversed(normal), strict=True))  # the first of those that are the same
        found = {key: vector for key in wanted if (vector := kept.get(key)) is not None}
        missing = [key for key in dict.fromkeys(wanted) if key not in found]
        for counter in (self.lookups, lookups):
            counter.hits += len(wanted) - len(missing)
            counter.misses += len(missing)
        others = {key: future for key in missing if (future := self._running.get((workspace, key))) is not None}
        until = time.monotonic() + within
        if own := [key for key in missing if key not in others]:
            found |= await self._embed(embedder, workspace, {key: texts[key] for key in own}, within)
        if others:
            found |= await self._wait(others, until)
            if left := [key for key in missing if key not in found]:  # whoever embedded them has given up
                seconds = max(until - time.monotonic(), 0.001)
                found |= await self._embed(embedder, workspace, {key: texts[key] for key in left}, seconds)
        return np.stack([found[key] for key in wanted])

    def find(self, embedder: Embedder, workspace: str, sentences: Sequence[str]) -> Floats | None:
        """One row per sentence if all of them are known; hits are counted, misses are when they are embedded."""
        kept, lookups = self._open(workspace)
        wanted = [make_key(embedder, normalise_sentence(sentence)) for sentence in sentences]
        found = [vector for key in wanted if (vector := kept.get(key)) is not None]
        if len(found) < len(wanted):
            return None
        for counter in (self.lookups, lookups):
            counter.hits += len(found)
        return np.stack(found)

    def _open(self, workspace: str) -> tuple[CachePartition, HitCounter]:
        kept = self._partitions.get(workspace)
        if kept is None:
            kept = self._partitions[workspace] = self._memory.open(workspace)
            self.lookups_by_workspace[workspace] = HitCounter()
        return kept, self.lookups_by_workspace[workspace]

    async def _embed(
        self, embedder: Embedder, workspace: str, texts: Mapping[SentenceKey, str], within: float
    ) -> dict[SentenceKey, Floats]:
        """Embed and keep; others can wait for it meanwhile."""
        loop = asyncio.get_running_loop()
        running = {(workspace, key): loop.create_future() for key in texts}
        self._running |= running
        made: dict[SentenceKey, Floats] = {}
        try:
            rows = await embedder.embed(list(texts.values()), within, workspace)
            for key, row in zip(texts, rows, strict=True):
                vector = made[key] = row.copy()  # a row would keep all rows that came with it
                self._partitions[workspace].put(key, vector, VECTOR_BYTES + vector.nbytes)
        finally:
            for (_, key), future in running.items():
                if self._running.get((workspace, key)) is future:
                    del self._running[workspace, key]
                future.set_result(made.get(key))
        return made

    async def _wait(
        self, others: Mapping[SentenceKey, asyncio.Future[Floats | None]], until: float
    ) -> dict[SentenceKey, Floats]:
        """What others embed, as far as they do so in time."""
        await asyncio.wait(others.values(), timeout=max(until - time.monotonic(), 0.0))
        done = {key: future.result() for key, future in others.items() if future.done()}
        return {key: vector for key, vector in done.items() if vector is not None}


def make_key(embedder: Embedder, sentence: str) -> SentenceKey:
    """The same for all sentences that the embedder cannot tell apart; a hash, since texts of clients are not kept."""
    return embedder.id, blake2b(embedder.normalise(sentence).encode("utf-8", "replace"), digest_size=16).digest()


def normalise_sentence(sentence: str) -> str:
    """What is embedded for a sentence: spacing and the way accents are written make no difference."""
    return " ".join(normalize_text("NFC", sentence).split())
