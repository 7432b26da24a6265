"""An embedder that needs no model: texts with the same words are similar."""

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WIDTH = 128


class WordEmbedder:
    """A dimension per word."""

    id = "words"

    def normalise(self, text: str) -> str:
        return text

    async def embed(
        self, texts: Sequence[str], within: float | None = None, workspace: str = ""
    ) -> NDArray[np.float32]:
        return np.stack([embed_words(text) for text in texts])

    async def close(self) -> None:
        """Nothing is held open."""


def embed_words(text: str) -> NDArray[np.float32]:
    counts = np.full(WIDTH, 0.01, np.float32)
    for word in re.findall(r"\w+", text.lower()):
        counts[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % WIDTH] += 1
    return counts / np.linalg.norm(counts)
