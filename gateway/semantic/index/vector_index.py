"""Searching vectors: exactly while that is fast, by a few bits per dimension and a second look beyond.

Whoever may not be found is left out before anything is ranked, and nothing here is learned from the data: what others
hold never shifts a score.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

EXACT_LIMIT = 30_000  # rows; beyond, reading every vector takes longer than 5 ms
FEW = 100  # rows that are ranked without choosing among them first
SHORTLIST = 400  # rows whose true scores are looked at, or …
SHORTLIST_SHARE = 100  # … one in so many: .99 of the neighbours at a cosine of .37, all of them at .6
CODED = 4096  # rows that are coded at once, which keeps what they need in the cache
BLOCK = 2048  # rows that are compared at once: few calls, and what they need stays in the cache

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
        return ExactIndex(widened(vectors))
    blocks = [codes(widened(vectors[start : start + CODED])) for start in range(0, len(vectors), CODED)]
    return CodedIndex(vectors, np.concatenate(blocks, axis=1))


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
        if len(allowed) <= FEW:
            return _ranked(self, queries, [allowed] * len(queries), k)
        scores = queries @ self.vectors.T if rows is None else self.scores_for(queries, rows)
        return _ranked(self, queries, [allowed[_largest(line, k)] for line in scores], k)

    def scores_for(self, queries: Vectors, rows: Rows) -> Vectors:
        return _in_blocks(self, queries, rows)

    def vectors_of(self, rows: Rows) -> Vectors:
        return self.vectors[_span(rows)]


@dataclass(frozen=True, slots=True, eq=False)
class CodedIndex:
    """Bits choose whose true scores are looked at; 0.9 KB a row with 384 dimensions."""

    vectors: NDArray[np.float16]
    codes: NDArray[np.uint64]  # one line per 64 bits, so that each is counted in one sweep

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Vectors, k: int, rows: Rows | None = None) -> tuple[Vectors, Rows]:
        allowed = _every(self) if rows is None else rows
        if not len(allowed):
            return _nothing(queries)
        wanted = max(SHORTLIST, len(allowed) // SHORTLIST_SHARE, 4 * k)
        if len(allowed) <= wanted:
            return _ranked(self, queries, [allowed] * len(queries), k)
        words = self.codes if rows is None else np.take(self.codes, rows, axis=1)
        found = [allowed[_nearest(words, code, wanted)] for code in codes(queries).T]
        return _ranked(self, queries, found, k)

    def scores_for(self, queries: Vectors, rows: Rows) -> Vectors:
        return _in_blocks(self, queries, rows)

    def vectors_of(self, rows: Rows) -> Vectors:
        return widened(self.vectors[_span(rows)])


def widened(half: NDArray[np.float16]) -> Vectors:
    """The same numbers as float32, several times faster than numpy's own conversion, which takes them one by one.

    Sign, exponent and fraction move to their new places at once; the product mends the bias of the exponent.
    """
    bits = half.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= -0x70002000  # drops what the extension of the sign has put between sign and exponent
    wide = bits.view(np.float32)
    wide *= np.float32(2.0**112)
    return wide


def _in_blocks(index: Index, queries: Vectors, rows: Rows) -> Vectors:
    """Every score, block by block of the rows that are asked for.

    The shape of a product decides its last bits: so it depends on those rows alone, whatever lies around them.
    """
    scores = np.empty((len(queries), len(rows)), np.float32)
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        np.matmul(queries, index.vectors_of(rows[block]).T, out=scores[:, block])
    return scores


def _span(rows: Rows) -> Rows | slice:
    """Rows that follow each other as a slice, which need not be copied."""
    if len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(rows[0], rows[-1] + 1)
    return rows


def _nothing(queries: Vectors) -> tuple[Vectors, Rows]:
    return np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.intp)


def _every(index: Index) -> Rows:
    return np.arange(len(index), dtype=np.intp)


def _largest(scores: Vectors, k: int) -> Rows:
    """The places of the `k` largest, in no order."""
    if k >= len(scores):
        return np.arange(len(scores), dtype=np.intp)
    return np.argpartition(scores, len(scores) - k)[len(scores) - k :]


def _ranked(index: Index, queries: Vectors, found: list[Rows], k: int) -> tuple[Vectors, Rows]:
    """The best `k` of the rows that were found for each query.

    Scores are summed row by row here: those of a matrix product differ in the last bit with the matrix around them.
    """
    best_scores, best_rows = [], []
    for query, rows in zip(queries, found, strict=True):
        scores = np.einsum("rd,d->r", index.vectors_of(rows), query)
        order = np.lexsort((rows, -scores))[:k]
        best_scores.append(scores[order])
        best_rows.append(rows[order])
    return np.stack(best_scores), np.stack(best_rows)


def codes(vectors: Vectors) -> NDArray[np.uint64]:
    """Three bits per dimension, a column per vector: its sign, and on which side of its neighbour's ± it lies.

    Each is the side of a plane through the origin, so that the share of equal bits measures the angle. The planes are
    the same for all data; signs alone would lose a fifth of the neighbours at a cosine of .37.
    """
    neighbours = np.roll(vectors, 1, axis=1)
    bits = np.concatenate([vectors > 0, vectors > neighbours, vectors > -neighbours], axis=1)
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 64)))
    return np.ascontiguousarray(np.packbits(padded, axis=1).view(np.uint64).T)


def _nearest(words: NDArray[np.uint64], code: NDArray[np.uint64], count: int) -> Rows:
    """The places of the codes that differ from `code` in the fewest bits: at least `count`, and all that tie."""
    distance = np.zeros(words.shape[1], np.uint16)
    for line, word in zip(words, code, strict=True):
        distance += np.bitwise_count(line ^ word)
    # Distances are small whole numbers: counting them finds the cut faster than any partition.
    cut = np.searchsorted(np.cumsum(np.bincount(distance)), count)
    return np.flatnonzero(distance <= cut)
