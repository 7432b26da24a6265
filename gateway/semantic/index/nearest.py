"""Large sets: only what may matter is compared exactly, the rest is told from a sample.

The nearest passages are looked up, here or on a server; what becomes of them is always scored here, from what the
caller may see and from nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gateway.semantic.index.vector_index import Index
from gateway.semantic.search.scoring import Floats, Rows, best_per_owner

if TYPE_CHECKING:
    from gateway.semantic.index.passage_index import PassageIndex
    from gateway.semantic.search.view import IndexView

LARGE = 100_000  # visible passages from which it pays: comparing all takes 22 ms a sentence, looking up 5
NEAREST = 200  # passages looked up per sentence; the ten best are among them even where a look-up misses some
WORDED = 100  # resources per sentence that are compared because of their words
SAMPLE = 500  # resources that tell how near the others are: their mean is known to a twentieth of their spread


@dataclass(frozen=True, slots=True, eq=False)
class Nearby:
    """What was looked up for the sentences of a question."""

    places: Rows  # among the rows of a view, ascending
    bounds: Floats  # by sentence: no other row is nearer


class NearestLookup(Protocol):
    """Where the nearest passages of large sets can be looked up besides here."""

    answered: int  # questions
    failed: int  # questions for which it should have and could not

    async def near(self, view: "IndexView", sentences: Sequence[str], vectors: Floats) -> Nearby | None:
        """Those of a view, or None: they have to be looked up here. It never raises and never takes long."""
        ...

    async def run(self, newest: Callable[[], "PassageIndex | None"]) -> None:
        """Keep up with the newest index, until cancelled."""
        ...

    async def close(self) -> None:
        """Release connections; it is not used afterwards."""
        ...


def nearest(index: Index, rows: Rows, vectors: Floats) -> Nearby:
    """The nearest of these rows, looked up here."""
    scores, found = index.search(vectors, NEAREST, rows)
    return Nearby(np.unique(np.searchsorted(rows, found)), scores[:, -1])


def dense_of(index: Index, rows: Rows, owners: Rows, vectors: Floats, near: Nearby, lexical: Floats) -> Floats:
    """The best similarity of each owner: exact for those that were looked up or share words, likely for the others.

    A likely one is that of some owner of the sample, so that mean and spread are those of all, and never higher than
    what was looked up.
    """
    count = int(owners[-1]) + 1
    sample = np.unique(np.linspace(0, count - 1, min(SAMPLE, count)).astype(np.intp))
    closely = np.zeros(count, np.bool_)
    closely[sample] = True
    closely[owners[near.places]] = True
    closely[_worded(lexical)] = True
    places = np.flatnonzero(closely[owners])
    numbers = np.cumsum(closely) - 1
    exact = best_per_owner(index.scores_for(vectors, rows[places]), numbers[owners[places]])
    likely = exact[:, numbers[sample]][:, np.arange(count) % len(sample)]
    dense = np.minimum(likely, near.bounds[:, None])
    dense[:, closely] = exact
    return dense


def _worded(lexical: Floats) -> Rows:
    """The columns with the best words of any sentence."""
    size = min(WORDED, lexical.shape[1])
    best = np.argpartition(-lexical, size - 1, axis=1)[:, :size]
    return np.unique(best)
