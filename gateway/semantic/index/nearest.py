"""Large sets: only what may matter is compared exactly, the rest is estimated from a sample.

The nearest passages are looked up, here or on a server; they are always scored here, from what the caller may see and
from nothing else.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.index.vector_index import Floats, Rows, VectorIndex, take_best_per_owner

LARGE = 100_000  # visible passages from which it pays: comparing all takes 22 ms a sentence, looking up 5
NEAREST = 200  # passages looked up per sentence; the ten best are among them even where a lookup misses some
BY_WORDS = 100  # resources per sentence that are compared because of their words
SAMPLE = 500  # resources that tell how near the others are: their mean is known to a twentieth of their spread


class NearestPassages(msgspec.Struct, frozen=True, eq=False):
    """What was looked up for the sentences of a question."""

    places: Rows  # among the visible rows, ascending
    bounds: Floats  # by sentence: no other row is nearer


class VisibleRows(Protocol):
    """The part of an index that a caller may see; compared by identity."""

    @property
    def index(self) -> PassageIndex:
        """The index."""
        ...

    @property
    def rows(self) -> Rows:
        """Its visible rows, ascending."""
        ...


class NearestLookup(Protocol):
    """Where the nearest passages of large sets can be looked up besides here."""

    answered: int  # questions
    failed: int  # questions for which it should have and could not

    async def find_nearest(
        self, visible: VisibleRows, sentences: Sequence[str], vectors: Floats
    ) -> NearestPassages | None:
        """The nearest visible passages, or None: look them up here. Never raises and never takes long."""
        ...

    async def run(self, get_newest: Callable[[], PassageIndex | None]) -> None:
        """Keep up with the newest index, until cancelled."""
        ...

    async def close(self) -> None:
        """Release connections; it is not used afterwards."""
        ...


def find_nearest(index: VectorIndex, rows: Rows, vectors: Floats) -> NearestPassages:
    """The nearest of these rows, looked up here."""
    scores, found = index.search(vectors, NEAREST, rows)
    return NearestPassages(np.unique(np.searchsorted(rows, found)), scores[:, -1])


def estimate_cosines(
    index: VectorIndex, rows: Rows, owners: Rows, vectors: Floats, near: NearestPassages, lexical: Floats
) -> Floats:
    """The best cosine of each owner: exact for those that were looked up or share words, an estimate for the others.

    An estimate is that of some owner of the sample, so that mean and spread are those of all, and never higher than
    what was looked up.
    """
    count = int(owners[-1]) + 1
    sample = np.unique(np.linspace(0, count - 1, min(SAMPLE, count)).astype(np.intp))
    is_exact = np.zeros(count, np.bool_)
    is_exact[sample] = True
    is_exact[owners[near.places]] = True
    is_exact[_find_best_by_words(lexical)] = True
    places = np.flatnonzero(is_exact[owners])
    numbers = np.cumsum(is_exact) - 1
    exact = take_best_per_owner(index.compute_scores(vectors, rows[places]), numbers[owners[places]])
    estimates = exact[:, numbers[sample]][:, np.arange(count) % len(sample)]
    cosines = np.minimum(estimates, near.bounds[:, None])
    cosines[:, is_exact] = exact
    return cosines


def _find_best_by_words(lexical: Floats) -> Rows:
    """The columns with the best words of any sentence."""
    size = min(BY_WORDS, lexical.shape[1])
    best = np.argpartition(-lexical, size - 1, axis=1)[:, :size]
    return np.unique(best)
