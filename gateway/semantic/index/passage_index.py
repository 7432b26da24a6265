"""What can be searched at one moment: passages with their vectors and the model that made them, and their words."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.lexical import LexicalIndex, LexicalView, extract_terms
from gateway.semantic.index.passages import Passage
from gateway.semantic.index.vector_index import EXACT_LIMIT, Rows, VectorIndex, build_index
from gateway.semantic.model.embedder import Embedder

MAX_GROWTH = 2  # times that a vocabulary may grow by words that may be gone before everything is read again

Vector = NDArray[np.float16]  # rounded where it is made, so that a restart finds exactly what was found before


class PassageIndex(msgspec.Struct, frozen=True, eq=False):
    """Passages and their vectors, row by row; queries are embedded with the embedder that comes along."""

    generation: int
    embedder: Embedder
    passages: tuple[Passage, ...]
    keys: tuple[bytes, ...]
    ready: NDArray[np.bool_]  # by row: whether it has a vector
    numbers: Mapping[str, int]  # of the resources
    owners: Rows  # by row: the number of its resource
    missing: frozenset[str]  # resources of which some passage has no vector yet
    vectors: VectorIndex

    @classmethod
    def build(
        cls,
        generation: int,
        embedder: Embedder,
        passages: Sequence[Passage],
        vectors: Mapping[bytes, Vector],
        exact_limit: int = EXACT_LIMIT,
        known_keys: Sequence[bytes] | None = None,  # of the passages, if somebody has made them already
    ) -> Self:
        """Index the passages whose vectors are known; the others keep their rows and are not found."""
        keys = tuple(known_keys or (passage.key(embedder.id) for passage in passages))
        matrix, ready = _build_matrix(keys, vectors)
        missing = frozenset(passage.resource for passage, there in zip(passages, ready, strict=True) if not there)
        names = dict.fromkeys(passage.resource for passage in passages)
        numbers = {name: number for number, name in enumerate(names)}
        owners = np.fromiter((numbers[passage.resource] for passage in passages), np.intp, len(passages))
        index = build_index(matrix, exact_limit)
        return cls(generation, embedder, tuple(passages), keys, ready, numbers, owners, missing, index)

    def find_rows(self, resources: Iterable[str]) -> Rows:
        """The rows of these resources that have a vector: what a search may look at. Worth keeping per scope."""
        allowed = np.zeros(len(self.numbers), np.bool_)
        allowed[[self.numbers[name] for name in resources if name in self.numbers]] = True
        return np.flatnonzero(allowed[self.owners] & self.ready)

    def find_vectors(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        """The vectors among `keys` that are here already: an edit embeds only the others."""
        places = {key: row for row, key in enumerate(self.keys) if self.ready[row]}
        found = [(key, places[key]) for key in keys if key in places]
        vectors = self.vectors.get_vectors(np.array([row for _, row in found], np.intp)).astype(np.float16)
        return {key: vector for (key, _), vector in zip(found, vectors, strict=True)}


def _build_matrix(
    keys: Sequence[bytes], vectors: Mapping[bytes, Vector]
) -> tuple[NDArray[np.float16], NDArray[np.bool_]]:
    """The vectors row by row, and which rows have one.

    Filled one by one: a single call that makes it all would block the event loop for as long as it takes.
    """
    width = len(next(iter(vectors.values()), ()))
    matrix = np.zeros((len(keys), width), np.float16)
    ready = np.zeros(len(keys), np.bool_)
    for row, key in enumerate(keys):
        vector = vectors.get(key)
        if vector is not None and len(vector) == width:  # an endpoint may change what it sends under the same name
            matrix[row], ready[row] = vector, True
    return matrix, ready


class IndexWords(msgspec.Struct, frozen=True, eq=False):
    """The words of an index: each resource is one document, made of its passages and examples."""

    index: PassageIndex
    texts: dict[str, tuple[str, ...]]  # by resource: its passages; the documents stand in this order
    numbers: dict[str, int]  # of the documents, by resource
    lexical: LexicalIndex
    tools: frozenset[str]  # those of the resources that are something to call
    initial_size: int  # of the vocabulary when everything was read

    @classmethod
    def build(cls, index: PassageIndex, former: Self | None = None) -> Self:
        """The words of an index; what it has in common with a former one is not read again."""
        by_resource = groupby(index.passages, key=lambda passage: passage.resource)
        texts = {name: tuple(one.text for one in group) for name, group in by_resource}
        numbers = {name: number for number, name in enumerate(texts)}
        tools = frozenset(passage.resource for passage in index.passages if passage.tool)
        if former is None or len(former.lexical.vocabulary) > MAX_GROWTH * former.initial_size:
            lexical = LexicalIndex.build([_extract_all_terms(some) for some in texts.values()])
            return cls(index, texts, numbers, lexical, tools, len(lexical.vocabulary))
        kept = {name for name, some in texts.items() if former.texts.get(name) == some}
        places = np.array([numbers[name] if name in kept else -1 for name in former.texts], np.intp)
        new = {numbers[name]: _extract_all_terms(some) for name, some in texts.items() if name not in kept}
        return cls(index, texts, numbers, former.lexical.revise(places, new), tools, former.initial_size)

    def restrict(self, resources: Sequence[str]) -> LexicalView:
        """The words of these resources alone."""
        return self.lexical.restrict(np.array([self.numbers[name] for name in resources], np.intp))


def _extract_all_terms(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in extract_terms(text)]
