"""Which documents have which words: postings that grow by segments, so that an edit costs little at any size."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gateway.semantic.index.word_postings import FoundPostings, Rows, WordSegment, join_segments, merge_small

Floats = NDArray[np.float32]

MOST_COUNTED = 255  # times that a word of a document counts at most
MOST_GONE = 0.25  # share of rows without a document above which rows are numbered anew
MOST_SPARE = 4  # searches at once for which memory is kept


class IndexedDocument(msgspec.Struct, frozen=True):
    """What is known of a document: its words, and a number for who may read it."""

    words: Sequence[str]
    group: int = 0
    changed: float = 0.0  # seconds since 1970; of equal matches, the latest comes first


class SearchMemory:
    """A sum of every row that is used again: to touch fresh memory for all of them takes longer than a search.

    All are zero between two searches; each search has one of its own.
    """

    def __init__(self) -> None:
        self._spare: list[Floats] = []

    def take(self, rows: int) -> Floats:
        try:
            return self._spare.pop()
        except IndexError:
            return np.zeros(rows, np.float32)

    def give_back(self, sums: Floats) -> None:
        if len(self._spare) < MOST_SPARE:
            self._spare.append(sums)


class WordIndex(msgspec.Struct, frozen=True, eq=False):
    """Immutable but for its vocabulary, which only grows: whoever searches is not disturbed by whoever revises."""

    vocabulary: dict[str, int] = msgspec.field(default_factory=dict)
    segments: tuple[WordSegment, ...] = ()
    ids: tuple[str, ...] = ()  # by row
    places: Mapping[str, int] = msgspec.field(default_factory=dict)  # id → row
    lengths: Floats = msgspec.field(default_factory=lambda: np.empty(0, np.float32))  # by row, in words
    groups: Rows = msgspec.field(
        default_factory=lambda: np.empty(0, np.int32)
    )  # by row; -1: it has no document any more
    changed: NDArray[np.float64] = msgspec.field(default_factory=lambda: np.empty(0, np.float64))  # by row
    memory: SearchMemory = msgspec.field(default_factory=SearchMemory)

    def __len__(self) -> int:
        return len(self.places)

    def revise(self, documents: Mapping[str, IndexedDocument], removed: Collection[str] = ()) -> "WordIndex":
        """The index with these documents added or replaced, and others removed."""
        groups, places = self.groups.copy(), dict(self.places)
        for id in (*removed, *documents):
            if (row := places.pop(id, None)) is not None:
                groups[row] = -1
        first, added = len(self.ids), list(documents.values())
        places |= {id: first + number for number, id in enumerate(documents)}
        segment = [self._make_segment(added, first)] if added else []
        revised = WordIndex(
            self.vocabulary,
            merge_small((*self.segments, *segment)),
            (*self.ids, *documents),
            places,
            np.append(self.lengths, np.array([len(one.words) for one in added], np.float32)),
            np.append(groups, np.array([one.group for one in added], np.int32)),
            np.append(self.changed, np.array([one.changed for one in added])),
        )
        return revised._renumber() if len(places) < (1 - MOST_GONE) * len(revised.ids) else revised

    def regroup(self, groups: Mapping[str, int]) -> "WordIndex":
        """The index with other numbers for who may read what; a document without one is found by nobody."""
        numbers = np.fromiter((groups.get(id, -1) for id in self.ids), np.int32, len(self.ids))
        numbers[self.groups < 0] = -1
        return replace(self, groups=numbers)

    def find_postings(self, words: Collection[str]) -> dict[str, FoundPostings]:
        """Where the postings of each word are that is known."""
        known = {word: term for word in words if (term := self.vocabulary.get(word)) is not None}
        terms = np.array([*known.values()], np.int32)
        spans = zip(*(one.find_spans(terms) for one in self.segments), strict=True)
        return {word: FoundPostings(self.segments, own) for word, own in zip(known, spans, strict=True)}

    def _make_segment(self, documents: Sequence[IndexedDocument], first: int) -> WordSegment:
        known, terms, rows, counts = self.vocabulary, [], [], []
        for row, one in enumerate(documents, first):
            for word, times in Counter(one.words).items():
                terms.append(known.setdefault(word, len(known)))
                rows.append(row)
                counts.append(min(times, MOST_COUNTED))
        return WordSegment.build(np.array(terms, np.int32), np.array(rows, np.int32), np.array(counts, np.uint8))

    def _renumber(self) -> "WordIndex":
        """The same without the rows that have no document any more."""
        stays = self.groups >= 0
        places = np.where(stays, np.cumsum(stays, dtype=np.int32) - 1, -1).astype(np.int32)
        ids = tuple(id for id, here in zip(self.ids, stays, strict=True) if here)
        segments = (join_segments(self.segments, places),) if len(ids) else ()
        return WordIndex(
            self.vocabulary,
            segments,
            ids,
            {id: row for row, id in enumerate(ids)},
            self.lengths[stays],
            self.groups[stays],
            self.changed[stays],
        )
