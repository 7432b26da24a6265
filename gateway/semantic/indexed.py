"""What can be found by meaning at one moment: passages, their vectors, and the model that made them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.base import Embedder
from gateway.semantic.index import Index, Rows, build_index
from gateway.semantic.passages import Passage

Vector = NDArray[np.float16]  # rounded where it is made, so that a restart finds exactly what was found before


@dataclass(frozen=True, eq=False)
class Indexed:
    """Passages and their vectors, row by row; queries are embedded with the embedder that comes along."""

    generation: int
    embedder: Embedder
    passages: tuple[Passage, ...]
    keys: tuple[bytes, ...]
    ready: NDArray[np.bool_]  # by row: whether it has a vector
    index: Index

    @classmethod
    def build(
        cls, generation: int, embedder: Embedder, passages: Sequence[Passage], vectors: Mapping[bytes, Vector]
    ) -> Self:
        """Index the passages whose vectors are known; the others keep their rows and are not found."""
        keys = tuple(passage.key(embedder.id) for passage in passages)
        width = len(next(iter(vectors.values()), ()))
        nowhere = np.zeros(width, np.float16)
        matrix = np.array([vectors.get(key, nowhere) for key in keys], np.float16).reshape(len(keys), width)
        ready = np.fromiter((key in vectors for key in keys), np.bool_, len(keys))
        return cls(generation, embedder, tuple(passages), keys, ready, build_index(matrix))

    def rows(self, resources: Iterable[str]) -> Rows:
        """The rows with a vector of these resources: what a search may look at. Worth keeping per scope."""
        allowed = np.zeros(len(self._numbers), np.bool_)
        allowed[[self._numbers[name] for name in resources if name in self._numbers]] = True
        return np.flatnonzero(allowed[self._owners] & self.ready)

    def known(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        """The vectors among `keys` that are here already: an edit makes only the others anew."""
        places = {key: row for row, key in enumerate(self.keys) if self.ready[row]}
        found = [(key, places[key]) for key in keys if key in places]
        vectors = self.index.vectors_of(np.array([row for _, row in found], np.intp)).astype(np.float16)
        return {key: vector for (key, _), vector in zip(found, vectors, strict=True)}

    @cached_property
    def missing(self) -> frozenset[str]:
        """The resources of which some passage has no vector yet."""
        return frozenset(self.passages[row].resource for row in np.flatnonzero(~self.ready))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        names = dict.fromkeys(passage.resource for passage in self.passages)
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def _owners(self) -> Rows:
        return np.array([self._numbers[passage.resource] for passage in self.passages], np.intp)
