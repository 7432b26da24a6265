"""Vector search: exact for small sets; for large ones a few bits per dimension choose what is compared exactly.

Rows that the caller may not see are left out before anything is ranked, and nothing is learned from the data: what
others store never changes a score.
"""

from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

EXACT_LIMIT = 30_000  # rows; beyond, reading every vector takes longer than 5 ms
FEW = 100  # rows that are ranked without a shortlist
SHORTLIST = 400  # rows whose exact scores are computed, or …
SHORTLIST_SHARE = 100  # … one in so many: .99 of the neighbours at a cosine of .37, all of them at .6
ENCODED_AT_ONCE = 4096  # rows; what they need stays in the cache
BLOCK = 2048  # rows that are compared at once: few calls, and what they need stays in the cache

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]
Codes = NDArray[np.uint64]


class RankedRows(NamedTuple):
    """For each query (down) its best rows, best first (across)."""

    scores: Floats
    rows: Rows


class VectorIndex(Protocol):
    """Vectors by row number; never changes once built."""

    def __len__(self) -> int: ...

    def search(self, queries: Floats, k: int, rows: Rows | None = None) -> RankedRows:
        """The best `k` of `rows` (None: of all) for each query, by cosine.

        There are fewer than `k` columns when there are fewer rows; equal scores come in row order.
        """
        ...

    def compute_scores(self, queries: Floats, rows: Rows) -> Floats:
        """The cosine of every query (down) with every one of `rows` (across)."""
        ...

    def get_vectors(self, rows: Rows) -> Floats:
        """The vectors of these rows, as they were given."""
        ...


def build_index(vectors: NDArray[np.float16], exact_limit: int = EXACT_LIMIT) -> VectorIndex:
    """An index of these rows, each of length 1 or, where there is no vector yet, 0."""
    if len(vectors) <= exact_limit:
        return ExactIndex(widen(vectors))
    blocks = [
        encode_vectors(widen(vectors[start : start + ENCODED_AT_ONCE]))
        for start in range(0, len(vectors), ENCODED_AT_ONCE)
    ]
    return CodedIndex(vectors, np.concatenate(blocks, axis=1))


class ExactIndex(msgspec.Struct, frozen=True, eq=False):
    """Compares every allowed row; 1.5 KB a row."""

    vectors: Floats

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Floats, k: int, rows: Rows | None = None) -> RankedRows:
        allowed = _list_all_rows(self) if rows is None else rows
        if not len(allowed):
            return build_empty_ranking(queries)
        if len(allowed) <= FEW:
            return rank_rows(self, queries, [allowed] * len(queries), k)
        scores = queries @ self.vectors.T if rows is None else self.compute_scores(queries, rows)
        return rank_rows(self, queries, [allowed[_find_largest(line, k)] for line in scores], k)

    def compute_scores(self, queries: Floats, rows: Rows) -> Floats:
        return score_in_blocks(self, queries, rows)

    def get_vectors(self, rows: Rows) -> Floats:
        return self.vectors[_slice_if_adjacent(rows)]


class CodedIndex(msgspec.Struct, frozen=True, eq=False):
    """Compares codes first, then the vectors of the nearest codes; 0.9 KB a row with 384 dimensions."""

    vectors: NDArray[np.float16]
    codes: Codes  # one line per 64 bits, so that each is counted in one pass

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Floats, k: int, rows: Rows | None = None) -> RankedRows:
        allowed = _list_all_rows(self) if rows is None else rows
        if not len(allowed):
            return build_empty_ranking(queries)
        wanted = max(SHORTLIST, len(allowed) // SHORTLIST_SHARE, 4 * k)
        if len(allowed) <= wanted:
            return rank_rows(self, queries, [allowed] * len(queries), k)
        words = self.codes if rows is None else np.take(self.codes, rows, axis=1)
        found = [allowed[_find_nearest_codes(words, code, wanted)] for code in encode_vectors(queries).T]
        return rank_rows(self, queries, found, k)

    def compute_scores(self, queries: Floats, rows: Rows) -> Floats:
        return score_in_blocks(self, queries, rows)

    def get_vectors(self, rows: Rows) -> Floats:
        return widen(self.vectors[_slice_if_adjacent(rows)])


def widen(half: NDArray[np.float16]) -> Floats:
    """The same numbers as float32, several times faster than numpy's own conversion, which takes them one by one.

    Sign, exponent and fraction move to their new places at once; the product corrects the bias of the exponent.
    """
    bits = half.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= -0x70002000  # drops what the extension of the sign has put between sign and exponent
    wide = bits.view(np.float32)
    wide *= np.float32(2.0**112)
    return wide


def score_in_blocks(index: VectorIndex, queries: Floats, rows: Rows) -> Floats:
    """The score of every query with every row, computed block by block.

    The shape of a matrix product decides its last bits: blocks of these rows alone make it independent of all others.
    """
    scores = np.empty((len(queries), len(rows)), np.float32)
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        np.matmul(queries, index.get_vectors(rows[block]).T, out=scores[:, block])
    return scores


def _slice_if_adjacent(rows: Rows) -> Rows | slice:
    """Adjacent rows as a slice, which is a view and no copy; other rows as they are."""
    if len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(rows[0], rows[-1] + 1)
    return rows


def build_empty_ranking(queries: Floats) -> RankedRows:
    return RankedRows(np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.intp))


def _list_all_rows(index: VectorIndex) -> Rows:
    return np.arange(len(index), dtype=np.intp)


def _find_largest(scores: Floats, k: int) -> Rows:
    """The places of the `k` largest, in no order."""
    if k >= len(scores):
        return np.arange(len(scores), dtype=np.intp)
    return np.argpartition(scores, len(scores) - k)[len(scores) - k :]


def rank_rows(index: VectorIndex, queries: Floats, candidates: list[Rows], k: int) -> RankedRows:
    """The best `k` of the candidate rows of each query.

    Scores are summed row by row: those of a matrix product differ in the last bit with the matrix around them.
    """
    best_scores, best_rows = [], []
    for query, rows in zip(queries, candidates, strict=True):
        scores = np.einsum("rd,d->r", index.get_vectors(rows), query)
        order = np.lexsort((rows, -scores))[:k]
        best_scores.append(scores[order])
        best_rows.append(rows[order])
    return RankedRows(np.stack(best_scores), np.stack(best_rows))


def encode_vectors(vectors: Floats) -> Codes:
    """Three bits per dimension, a column per vector: its sign, and on which side of its neighbour's ± it lies.

    Each is the side of a plane through the origin, so that the share of equal bits measures the angle. The planes are
    the same for all data; signs alone would lose a fifth of the neighbours at a cosine of .37.
    """
    neighbours = np.roll(vectors, 1, axis=1)
    bits = np.concatenate([vectors > 0, vectors > neighbours, vectors > -neighbours], axis=1)
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 64)))
    return np.ascontiguousarray(np.packbits(padded, axis=1).view(np.uint64).T)


def _find_nearest_codes(words: Codes, code: Codes, count: int) -> Rows:
    """The places of the codes that differ from `code` in the fewest bits: at least `count`, and all ties."""
    distances = measure_distances(words, code)
    return np.flatnonzero(distances <= find_cut(distances, count))


def measure_distances(words: Codes, code: Codes) -> NDArray[np.uint16]:
    """In how many bits each column differs from a code."""
    distances = np.zeros(words.shape[1], np.uint16)
    for line, word in zip(words, code, strict=True):
        distances += np.bitwise_count(line ^ word)
    return distances


def find_cut(distances: NDArray[np.uint16], count: int) -> int:
    """The distance within which there are at least `count`.

    Distances are small whole numbers: counting them finds the cut faster than any partition.
    """
    return int(np.searchsorted(np.cumsum(np.bincount(distances)), count))


def take_best_per_owner(similarities: Floats, owners: Rows) -> Floats:
    """The best similarity of each owner; `owners` numbers the columns in ascending order without gaps."""
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    best: Floats = np.maximum.reduceat(similarities, starts, axis=1)
    return best
