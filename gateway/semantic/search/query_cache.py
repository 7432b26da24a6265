"""The vectors of recent questions: conversations repeat themselves, and a hit costs microseconds."""

import unicodedata
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.model.embedder import Embedder

CAPACITY = 10_000  # sentences; 1.5 KB each with 384 dimensions


class QueryCache:
    """Vectors by model, workspace and sentence, the least recently used forgotten first.

    One workspace never learns from a fast answer what another has asked.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[tuple[str, str, str], NDArray[np.float32]] = OrderedDict()
        self.hits = 0
        self.misses = 0

    async def embed(
        self, embedder: Embedder, workspace: str, sentences: Sequence[str], within: float
    ) -> NDArray[np.float32]:
        """One row per sentence; raises what the embedder raises when it has to be asked."""
        wanted = [(embedder.id, workspace, normal_form(sentence)) for sentence in sentences]
        found = {key: self._kept[key] for key in wanted if key in self._kept}
        missing = [key for key in dict.fromkeys(wanted) if key not in found]
        self.hits += len(wanted) - len(missing)
        self.misses += len(missing)
        if missing:
            rows = await embedder.embed([sentence for _, _, sentence in missing], within)
            found.update(zip(missing, rows, strict=True))
        for key in wanted:
            self._kept[key] = found[key]
            self._kept.move_to_end(key)
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
        return np.stack([found[key] for key in wanted])


def normal_form(sentence: str) -> str:
    """What is embedded for a sentence: spacing and the way accents are written make no difference."""
    return " ".join(unicodedata.normalize("NFC", sentence).split())
