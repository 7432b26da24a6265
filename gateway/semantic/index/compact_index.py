"""Vectors that come and go one by one: blocks that are only appended to, a byte per dimension with a code beside it.

As in the other indexes, rows that a caller may not see are left out before anything is ranked.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.vector_index import (
    Codes,
    Floats,
    RankedRows,
    Rows,
    build_empty_ranking,
    encode_vectors,
    find_cut,
    measure_distances,
    score_in_blocks,
)

Flags = NDArray[np.bool_]

BLOCK_ROWS = 8192  # what one pass over a block needs stays in the cache
FIRST_ROWS = 64  # of a block; it grows until it is full, so that few vectors take little
LARGEST = 127  # of a byte with a sign
ROUGH, ROUGH_SHARE = 1_000, 200  # rows that the signs alone choose: so many, or one in so many
FINE = 200  # of them that whole codes choose; these are compared byte by byte
WORD = 64  # bits of a line
FARTHEST = np.uint16(20_000)  # a distance that no two codes have


class VectorBlock(NamedTuple):
    """Room for some rows; those behind the last one are written when they come."""

    signs: Codes  # the first bits of codes, one line per 64, so that all rows are compared line by line
    codes: Codes  # whole codes, row by row, so that few rows are read at once
    bytes: NDArray[np.int8]
    scales: Floats  # by row: what a byte of 1 stands for


class CompactIndex(msgspec.Struct, frozen=True, eq=False):
    """A VectorIndex that grows: 0.58 KB a row with 384 dimensions. Only the newest of a line is appended to."""

    width: int
    blocks: tuple[VectorBlock, ...] = ()
    count: int = 0

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for block in self.blocks for part in block)

    def append(self, vectors: Floats) -> Self:
        """The index with these rows at its end, each of length 1."""
        blocks, count, at = list(self.blocks), self.count, 0
        while at < len(vectors):
            used = count % BLOCK_ROWS
            if not used:
                blocks.append(_make_block(self.width, FIRST_ROWS))
            some = vectors[at : at + BLOCK_ROWS - used]
            blocks[-1] = _write(blocks[-1], used, some)
            at, count = at + len(some), count + len(some)
        return type(self)(self.width, tuple(blocks), count)

    def take(self, rows: Rows) -> Self:
        """An index of these rows alone."""
        made = type(self)(self.width)
        for start in range(0, len(rows), BLOCK_ROWS):
            made = made.append(self.get_vectors(rows[start : start + BLOCK_ROWS]))
        return made

    def search(self, queries: Floats, k: int, rows: Rows | None = None) -> RankedRows:
        if rows is None:
            return self.search_visible(queries, k, None)
        visible = np.zeros(self.count, np.bool_)
        visible[rows] = True
        return self.search_visible(queries, k, visible)

    def search_visible(self, queries: Floats, k: int, visible: Flags | None) -> RankedRows:
        """The best `k` of the visible rows (None: of all) for each query; `k` is at most FINE."""
        count = self.count if visible is None else int(np.count_nonzero(visible))
        if not count:
            return build_empty_ranking(queries)
        visible = None if count == self.count else visible
        if count <= FINE:
            everything = np.arange(self.count) if visible is None else np.flatnonzero(visible)
            chosen = [everything] * len(queries)
        else:
            chosen = self._choose(np.ascontiguousarray(encode_vectors(queries).T), visible, count)
        return RankedRows(*map(np.stack, zip(*self._rank(queries, chosen, k), strict=True)))

    def compute_scores(self, queries: Floats, rows: Rows) -> Floats:
        return score_in_blocks(self, queries, rows)

    def get_vectors(self, rows: Rows) -> Floats:
        found = np.empty((len(rows), self.width), np.float32)
        order = np.argsort(rows, kind="stable")
        for block, places, local in self._locate(rows[order]):
            found[order[places]] = block.bytes[local] * block.scales[local, None]
        return found

    def _rank(self, queries: Floats, chosen: Sequence[Rows], k: int) -> Iterator[tuple[Floats, Rows]]:
        """The scores and rows of each query's best; summed row by row, so that no row depends on those around it."""
        for query, rows in zip(queries, chosen, strict=True):
            scores = np.empty(len(rows), np.float32)
            for block, places, local in self._locate(rows):
                products = np.einsum("rd,d->r", block.bytes[local].astype(np.float32), query)
                scores[places] = products * block.scales[local]
            order = np.lexsort((rows, -scores))[:k]
            yield scores[order], rows[order]

    def _choose(self, codes: Codes, visible: Flags | None, count: int) -> list[Rows]:
        """The rows that are worth an exact look: first by the signs of all, then by the whole codes of the nearest."""
        distances = self._measure_signs(codes)
        if visible is not None:
            np.copyto(distances, FARTHEST, where=~visible)
        rough = min(count, max(ROUGH, count // ROUGH_SHARE))
        chosen = []
        for code, line in zip(codes, distances, strict=True):
            near = np.flatnonzero(line <= find_cut(line, rough))
            whole = np.empty(len(near), np.uint16)
            for block, places, local in self._locate(near):
                whole[places] = np.bitwise_count(block.codes[local] ^ code).sum(axis=1, dtype=np.uint16)
            chosen.append(near[whole <= find_cut(whole, min(len(near), FINE))])
        return chosen

    def _measure_signs(self, codes: Codes) -> NDArray[np.uint16]:
        """How far the signs of every row are from those of each code; block by block, which is read once for all."""
        lines, distances = _count_lines(self.width), np.empty((len(codes), self.count), np.uint16)
        for number, block in enumerate(self.blocks):
            start = number * BLOCK_ROWS
            rows = min(BLOCK_ROWS, self.count - start)
            for code, line in zip(codes, distances, strict=True):
                line[start : start + rows] = measure_distances(block.signs[:, :rows], code[:lines])
        return distances

    def _locate(self, rows: Rows) -> Iterator[tuple[VectorBlock, slice, Rows]]:
        """Each block that has some of the rows, which are ascending; where those are among them, and in it."""
        ends = np.searchsorted(rows, np.arange(len(self.blocks) + 1) * BLOCK_ROWS).tolist()
        for number, (first, last) in enumerate(pairwise(ends)):
            if first < last:
                yield self.blocks[number], slice(first, last), rows[first:last] - number * BLOCK_ROWS


def _count_lines(width: int) -> int:
    """Of the signs."""
    return -(-width // WORD)


def _make_block(width: int, rows: int) -> VectorBlock:
    whole = -(-3 * width // WORD)
    return VectorBlock(
        np.zeros((_count_lines(width), rows), np.uint64),
        np.zeros((rows, whole), np.uint64),
        np.zeros((rows, width), np.int8),
        np.zeros(rows, np.float32),
    )


def _write(block: VectorBlock, used: int, vectors: Floats) -> VectorBlock:
    """The block with these vectors behind the rows that are used; whoever reads those is not disturbed."""
    end, width = used + len(vectors), vectors.shape[1]
    if end > len(block.scales):
        larger = _make_block(width, min(BLOCK_ROWS, max(end, 2 * len(block.scales))))
        larger.signs[:, :used] = block.signs[:, :used]
        larger.codes[:used], larger.bytes[:used] = block.codes[:used], block.bytes[:used]
        larger.scales[:used] = block.scales[:used]
        block = larger
    codes = encode_vectors(vectors)
    scales = np.maximum(np.abs(vectors).max(axis=1), 1e-9) / LARGEST
    block.signs[:, used:end] = codes[: len(block.signs)]
    block.codes[used:end] = codes.T
    block.bytes[used:end] = np.rint(vectors / scales[:, None])
    block.scales[used:end] = scales
    return block
