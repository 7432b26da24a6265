"""The vectors of recent sentences: conversations repeat themselves, and a hit costs microseconds."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from gateway.domain.lru import HitCounter
from gateway.domain.memory_budget import CachePartition, MemoryBudget
from gateway.domain.normal_form import normalize_text
from gateway.semantic.index.vector_index import Floats
from gateway.semantic.model.embedder import Embedder

VECTOR_BYTES = 200  # of a vector besides its numbers


class QueryCache:
    """Vectors by model, workspace and sentence.

    Each workspace has its own: no fast answer tells one workspace what another has asked, and a flood of questions
    pushes out nobody else's.
    """

    def __init__(self, memory: MemoryBudget | None = None) -> None:
        self._memory = memory or MemoryBudget()
        self._partitions: dict[str, CachePartition] = {}
        self.lookups = HitCounter()
        self.lookups_by_workspace: dict[str, HitCounter] = {}

    async def embed(self, embedder: Embedder, workspace: str, sentences: Sequence[str], within: float) -> Floats:
        """One row per sentence; raises what the embedder raises when it has to be asked."""
        kept = self._partitions.get(workspace)
        if kept is None:
            kept = self._partitions[workspace] = self._memory.open(workspace)
            self.lookups_by_workspace[workspace] = HitCounter()
        texts = {make_key(embedder, text): text for text in map(normalise_sentence, reversed(sentences))}
        wanted = [make_key(embedder, normalise_sentence(sentence)) for sentence in sentences]
        found = {key: vector for key in wanted if (vector := kept.get(key)) is not None}
        missing = [key for key in dict.fromkeys(wanted) if key not in found]
        self.lookups.hits += len(wanted) - len(missing)
        self.lookups.misses += len(missing)
        own = self.lookups_by_workspace[workspace]
        own.hits += len(wanted) - len(missing)
        own.misses += len(missing)
        if missing:
            rows = await embedder.embed([texts[key] for key in missing], within, workspace)
            found.update(zip(missing, rows, strict=True))
        for key in missing:
            vector = found[key].copy()  # a row would keep all rows that came with it
            kept.put(key, vector, VECTOR_BYTES + vector.nbytes)
        return np.stack([found[key] for key in wanted])


def make_key(embedder: Embedder, sentence: str) -> tuple[str, bytes]:
    """The same for all sentences that the embedder cannot tell apart; a hash, since texts of clients are not kept."""
    return embedder.id, blake2b(embedder.normalise(sentence).encode("utf-8", "replace"), digest_size=16).digest()


def normalise_sentence(sentence: str) -> str:
    """What is embedded for a sentence: spacing and the way accents are written make no difference."""
    return " ".join(normalize_text("NFC", sentence).split())
