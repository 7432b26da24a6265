"""The postings of words, by segments that are joined as they grow."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Counts = NDArray[np.uint8]


class WordSegment(msgspec.Struct, frozen=True, eq=False):
    """The postings of some rows."""

    terms: Rows  # ascending, each once
    starts: NDArray[np.int64]  # by place of a term: where its rows begin; one more at the end
    rows: Rows
    counts: Counts

    @classmethod
    def build(cls, terms: Rows, rows: Rows, counts: Counts) -> Self:
        order = np.argsort(terms, kind="stable")
        terms, rows, counts = terms[order], rows[order], counts[order]
        first = np.ones(len(terms), np.bool_)
        first[1:] = terms[1:] != terms[:-1]
        return cls(terms[first], np.append(np.flatnonzero(first), len(terms)), rows, counts)

    def find_spans(self, terms: Rows) -> list[slice]:
        """Where the rows of each term are."""
        starts = self.starts[self.terms.searchsorted(terms)]
        ends = self.starts[self.terms.searchsorted(terms, "right")]
        return [slice(*ends) for ends in zip(starts.tolist(), ends.tolist(), strict=True)]

    def list_terms(self) -> Rows:
        """The term of every posting."""
        return np.repeat(self.terms, np.diff(self.starts))


def join_segments(segments: Sequence[WordSegment], places: Rows | None = None) -> WordSegment:
    """One segment instead of several, with other numbers for rows if they are given; -1: a row that is gone."""
    terms = np.concatenate([one.list_terms() for one in segments])
    rows = np.concatenate([one.rows for one in segments])
    counts = np.concatenate([one.counts for one in segments])
    if places is not None:
        rows = places[rows]
        stays = rows >= 0
        terms, rows, counts = terms[stays], rows[stays], counts[stays]
    return WordSegment.build(terms, rows, counts)


class FoundPostings(NamedTuple):
    """Where the postings of a word are, segment by segment."""

    segments: Sequence[WordSegment]
    spans: Sequence[slice]

    @property
    def size(self) -> int:
        return sum(one.stop - one.start for one in self.spans)

    def read_rows(self) -> Rows:
        """The rows that have the word, in ascending order."""
        return np.concatenate([one.rows[span] for one, span in zip(self.segments, self.spans, strict=True)])

    def read_counts(self) -> Counts:
        """How often each of them has it."""
        return np.concatenate([one.counts[span] for one, span in zip(self.segments, self.spans, strict=True)])


def merge_small(segments: tuple[WordSegment, ...]) -> tuple[WordSegment, ...]:
    """Segments of which each is at least twice as large as the next: few, and each posting is rarely moved."""
    while len(segments) > 1 and len(segments[-2].rows) < 2 * len(segments[-1].rows):
        segments = (*segments[:-2], join_segments(segments[-2:]))
    return segments
