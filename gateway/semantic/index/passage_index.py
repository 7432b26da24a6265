"""What can be found by meaning at one moment: passages, their vectors, and the model that made them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.passages import Passage
from gateway.semantic.index.vector_index import Index, Rows, build_index
from gateway.semantic.model.embedder import Embedder

Vector = NDArray[np.float16]  # rounded where it is made, so that a restart finds exactly what was found before


@dataclass(frozen=True, slots=True, eq=False)
class PassageIndex:
    """Passages and their vectors, row by row; queries are embedded with the embedder that comes along."""

    generation: int
    embedder: Embedder
    passages: tuple[Passage, ...]
    keys: tuple[bytes, ...]
    ready: NDArray[np.bool_]  # by row: whether it has a vector
    numbers: Mapping[str, int]  # of the resources
    owners: Rows  # by row: the number of its resource
    missing: frozenset[str]  # resources of which some passage has no vector yet
    index: Index

    @classmethod
    def build(
        cls, generation: int, embedder: Embedder, passages: Sequence[Passage], vectors: Mapping[bytes, Vector]
    ) -> Self:
        """Index the passages whose vectors are known; the others keep their rows and are not found."""
        keys = tuple(passage.key(embedder.id) for passage in passages)
        matrix, ready = _matrix(keys, vectors)
        missing = frozenset(passage.resource for passage, there in zip(passages, ready, strict=True) if not there)
        names = dict.fromkeys(passage.resource for passage in passages)
        numbers = {name: number for number, name in enumerate(names)}
        owners = np.fromiter((numbers[passage.resource] for passage in passages), np.intp, len(passages))
        index = build_index(matrix)
        return cls(generation, embedder, tuple(passages), keys, ready, numbers, owners, missing, index)

    def rows(self, resources: Iterable[str]) -> Rows:
        """The rows with a vector of these resources: what a search may look at. Worth keeping per scope."""
        allowed = np.zeros(len(self.numbers), np.bool_)
        allowed[[self.numbers[name] for name in resources if name in self.numbers]] = True
        return np.flatnonzero(allowed[self.owners] & self.ready)

    def known(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        """The vectors among `keys` that are here already: an edit makes only the others anew."""
        places = {key: row for row, key in enumerate(self.keys) if self.ready[row]}
        found = [(key, places[key]) for key in keys if key in places]
        vectors = self.index.vectors_of(np.array([row for _, row in found], np.intp)).astype(np.float16)
        return {key: vector for (key, _), vector in zip(found, vectors, strict=True)}


def _matrix(keys: Sequence[bytes], vectors: Mapping[bytes, Vector]) -> tuple[NDArray[np.float16], NDArray[np.bool_]]:
    """The vectors row by row, and which rows have one.

    Filled one by one: a single call that makes it all would keep the event loop waiting for as long as it takes.
    """
    width = len(next(iter(vectors.values()), ()))
    matrix = np.zeros((len(keys), width), np.float16)
    ready = np.zeros(len(keys), np.bool_)
    for row, key in enumerate(keys):
        vector = vectors.get(key)
        if vector is not None and len(vector) == width:  # an endpoint may change what it sends under the same name
            matrix[row], ready[row] = vector, True
    return matrix, ready
