"""Searching vectors: exactly while that is fast, by one bit per dimension and a second look beyond.

Whoever may not be found is left out before anything is ranked, and nothing here is learned from the data: what one
scope finds never depends on what others hold.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

EXACT_LIMIT = 30_000  # rows; beyond, reading every vector takes longer than 5 ms
SCAN_SHARE = 5  # scanning all rows costs as much as copying out a fifth of them
SHORTLIST = 400  # rows whose true scores are looked at; 200 lose one neighbour in a hundred on near-identical texts

Vectors = NDArray[np.float32]
Rows = NDArray[np.intp]


class Index(Protocol):
    """Vectors by row number; never changes once built."""

    def __len__(self) -> int: ...

    def search(self, queries: Vectors, k: int, rows: Rows | None = None) -> tuple[Vectors, Rows]:
        """For each query its best `k` of `rows` (None: of all): their cosines and row numbers, best first.

        There are fewer than `k` columns when there are fewer rows; equal scores come in row order.
        """
        ...

    def scores_for(self, queries: Vectors, rows: Rows) -> Vectors:
        """The cosine of every query (down) with every one of `rows` (across)."""
        ...

    def vectors_of(self, rows: Rows) -> Vectors:
        """The vectors of these rows, as they were given."""
        ...


def build_index(vectors: NDArray[np.float16]) -> Index:
    """An index of these rows, each of length 1 or, where there is no vector yet, 0."""
    if len(vectors) <= EXACT_LIMIT:
        return ExactIndex(vectors.astype(np.float32))
    return CodedIndex(vectors, _codes(vectors))


@dataclass(frozen=True, slots=True, eq=False)
class ExactIndex:
    """Every allowed row is compared; 1.5 KB a row."""

    vectors: Vectors

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Vectors, k: int, rows: Rows | None = None) -> tuple[Vectors, Rows]:
        allowed = _every(self) if rows is None else rows
        if not len(allowed):
            return _nothing(queries)
        scores = queries @ self.vectors.T if rows is None else self.scores_for(queries, rows)
        found = [allowed[_largest(line, k)] for line in scores]
        return _ranked(queries, [self.vectors_of(some) for some in found], found, k)

    def scores_for(self, queries: Vectors, rows: Rows) -> Vectors:
        if len(rows) * SCAN_SHARE < len(self) or not len(rows):
            return queries @ self.vectors_of(rows).reshape(len(rows), queries.shape[1]).T
        return (queries @ self.vectors.T)[:, rows]

    def vectors_of(self, rows: Rows) -> Vectors:
        return self.vectors[rows]


@dataclass(frozen=True, slots=True, eq=False)
class CodedIndex:
    """The signs of all dimensions, as bits, choose whose true scores are looked at; 0.8 KB a row."""

    vectors: NDArray[np.float16]
    codes: NDArray[np.uint64]  # one line per 64 dimensions, so that each is counted in one sweep

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Vectors, k: int, rows: Rows | None = None) -> tuple[Vectors, Rows]:
        allowed = _every(self) if rows is None else rows
        if not len(allowed):
            return _nothing(queries)
        codes = self.codes if rows is None else self.codes[:, rows]
        wanted = max(SHORTLIST, 4 * k)
        found = [allowed[_nearest(codes, code, wanted)] for code in _codes(queries).T]
        return _ranked(queries, [self.vectors_of(some) for some in found], found, k)

    def scores_for(self, queries: Vectors, rows: Rows) -> Vectors:
        return queries @ self.vectors_of(rows).T

    def vectors_of(self, rows: Rows) -> Vectors:
        return self.vectors[rows].astype(np.float32)


def _nothing(queries: Vectors) -> tuple[Vectors, Rows]:
    return np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.intp)


def _every(index: Index) -> Rows:
    return np.arange(len(index), dtype=np.intp)


def _largest(scores: Vectors, k: int) -> Rows:
    """The places of the `k` largest, in no order."""
    if k >= len(scores):
        return np.arange(len(scores), dtype=np.intp)
    return np.argpartition(scores, len(scores) - k)[len(scores) - k :]


def _ranked(queries: Vectors, vectors: list[Vectors], rows: list[Rows], k: int) -> tuple[Vectors, Rows]:
    """The best `k` of what was found for each query.

    Scores are summed row by row here: those of a matrix product differ in the last bit with the matrix around them.
    """
    best_scores, best_rows = [], []
    for query, some, numbers in zip(queries, vectors, rows, strict=True):
        scores = (some * query).sum(axis=1)
        order = np.lexsort((numbers, -scores))[:k]
        best_scores.append(scores[order])
        best_rows.append(numbers[order])
    return np.stack(best_scores), np.stack(best_rows)


def _codes(vectors: NDArray[np.floating]) -> NDArray[np.uint64]:
    """One bit per dimension, padded to whole words; a column per vector."""
    bits = np.packbits(vectors > 0, axis=1)
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _nearest(codes: NDArray[np.uint64], code: NDArray[np.uint64], count: int) -> Rows:
    """The places of the codes that differ from `code` in the fewest bits: at least `count`, and all that tie."""
    distance = np.zeros(codes.shape[1], np.uint16)
    for line, word in zip(codes, code, strict=True):
        distance += np.bitwise_count(line ^ word)
    # Distances are small whole numbers: counting them finds the cut faster than any partition.
    cut = np.searchsorted(np.cumsum(np.bincount(distance)), count)
    return np.flatnonzero(distance <= cut)
