"""The vectors of recent sentences: conversations repeat themselves, and a hit costs microseconds."""

import unicodedata
from collections.abc import Sequence

import numpy as np

from gateway.domain.lru import HitCounter, LruCache
from gateway.semantic.index.vector_index import Floats
from gateway.semantic.model.embedder import Embedder

CAPACITY = 10_000  # sentences; 1.5 KB each with 384 dimensions


class QueryCache:
    """Vectors by model, workspace and sentence.

    A workspace is part of the key: no fast answer tells one workspace what another has asked.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._kept = LruCache[tuple[str, str, str], Floats](capacity, capacity)
        self.lookups = HitCounter()

    async def embed(self, embedder: Embedder, workspace: str, sentences: Sequence[str], within: float) -> Floats:
        """One row per sentence; raises what the embedder raises when it has to be asked."""
        wanted = [(embedder.id, workspace, normalise_sentence(sentence)) for sentence in sentences]
        found = {key: vector for key in wanted if (vector := self._kept.get(key)) is not None}
        missing = [key for key in dict.fromkeys(wanted) if key not in found]
        self.lookups.hits += len(wanted) - len(missing)
        self.lookups.misses += len(missing)
        if missing:
            rows = await embedder.embed([sentence for _, _, sentence in missing], within, workspace)
            found.update(zip(missing, rows, strict=True))
        for key in wanted:
            self._kept.put(key, found[key])
        return np.stack([found[key] for key in wanted])


def normalise_sentence(sentence: str) -> str:
    """What is embedded for a sentence: spacing and the way accents are written make no difference."""
    return " ".join(unicodedata.normalize("NFC", sentence).split())
