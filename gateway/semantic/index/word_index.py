"""Which documents have which words: postings that grow by segments, so that an edit costs little at any size."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Counts = NDArray[np.uint8]

K1, B = 1.2, 0.6  # as in the lexical index of resources
MOST_COUNTED = 255  # times that a word of a document counts at most
FREQUENT = 2_000  # documents from which on it is worth remembering how many have a word
MOST_POSTINGS = 20_000  # that a search looks at: the rarest words first, the most frequent ones are left out
MOST_WORDS = 24  # of a query
DENSITY = 0.2  # of the score: how much of a document is about the words that it has
MOST_GONE = 0.25  # share of rows without a document above which rows are numbered anew
MOST_SPARE = 4  # searches at once for which memory is kept


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """What is known of a document: its words, and a number for who may read it."""

    words: Sequence[str]
    group: int = 0
    changed: float = 0.0  # seconds since 1970; of equal matches, the latest comes first


class WordMatch(NamedTuple):
    """A document that has words of a query."""

    id: str
    score: float  # 0..1


class WordPostings(NamedTuple):
    """The documents that have a word, what it adds to the score of each, and how rare it is."""

    rows: NDArray[np.intp]
    gains: Floats
    rarity: float


class RatedRows(NamedTuple):
    """The rows that match a query, and how well."""

    rows: NDArray[np.intp]
    scores: Floats  # 0..1


class SearchMemory:
    """Sums by row that are used again: to touch fresh memory for every row takes longer than a search.

    All are zero between two searches; each search has one of its own.
    """

    def __init__(self) -> None:
        self._spare: list[Floats] = []

    def take(self, rows: int) -> Floats:
        """Two sums of every row."""
        try:
            return self._spare.pop()
        except IndexError:
            return np.zeros((2, rows), np.float32)

    def give_back(self, sums: Floats) -> None:
        if len(self._spare) < MOST_SPARE:
            self._spare.append(sums)


@dataclass(frozen=True, slots=True, eq=False)
class WordSegment:
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
        if not len(self.terms):
            return [slice(0, 0)] * len(terms)
        places = np.minimum(self.terms.searchsorted(terms), len(self.terms) - 1)
        known = self.terms[places] == terms
        starts, ends = np.where(known, self.starts[places], 0), np.where(known, self.starts[places + 1], 0)
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
        """The rows that have the word."""
        return np.concatenate([one.rows[span] for one, span in zip(self.segments, self.spans, strict=True)])

    def read_counts(self) -> Counts:
        """How often each of them has it."""
        return np.concatenate([one.counts[span] for one, span in zip(self.segments, self.spans, strict=True)])


@dataclass(frozen=True, slots=True, eq=False)
class WordIndex:
    """Immutable but for its vocabulary, which only grows: whoever searches is not disturbed by whoever revises."""

    vocabulary: dict[str, int] = field(default_factory=dict)
    segments: tuple[WordSegment, ...] = ()
    ids: tuple[str, ...] = ()  # by row
    places: Mapping[str, int] = field(default_factory=dict)  # id → row
    lengths: Floats = field(default_factory=lambda: np.empty(0, np.float32))  # by row, in words
    groups: Rows = field(default_factory=lambda: np.empty(0, np.int32))  # by row; -1: it has no document any more
    changed: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))  # by row
    memory: SearchMemory = field(default_factory=SearchMemory)

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
            _merge_small((*self.segments, *segment)),
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

    def restrict(self, groups: Collection[int]) -> "WordView":
        """What of the index the readers of these groups see: documents with words. Worth keeping with the index."""
        allowed = np.zeros(int(self.groups.max(initial=-1)) + 2, np.bool_)  # the last stands for -1
        allowed[[one for one in groups if one < len(allowed) - 1]] = True
        visible = allowed[self.groups] & (self.lengths > 0)
        mean = float(self.lengths[visible].mean()) if visible.any() else 1.0
        damping = K1 * (1 - B + B * self.lengths / max(1.0, mean))
        return WordView(self, visible, int(visible.sum()), damping.astype(np.float32), bool(visible.all()))

    def find_postings(self, words: Collection[str]) -> dict[str, "FoundPostings"]:
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


@dataclass(frozen=True, slots=True, eq=False)
class WordView:
    """An index as some readers see it: nothing that is hidden from them makes a difference to what they find."""

    index: WordIndex
    visible: Flags  # by row
    count: int  # of visible documents
    damping: Floats  # by row: what slows the growth of a word's count, more in long documents
    is_whole: bool = False  # every row is visible
    frequent: dict[str, int] = field(default_factory=dict)  # in how many visible documents words are that many have

    def search(self, queries: Sequence[Sequence[str]], limit: int) -> list[WordMatch]:
        """The visible documents that match one of the queries best, best first."""
        if not self.count:
            return []
        postings = self._find_all({word for words in queries for word in words[:MOST_WORDS]})
        sums = self.index.memory.take(len(self.damping))
        rated = [_rate(words[:MOST_WORDS], postings, self.count, sums[0]) for words in queries]
        found = rated[0] if len(rated) == 1 else _take_best(rated, sums[1])
        self.index.memory.give_back(sums)
        return self._list_best(found, limit)

    def _find_all(self, words: Collection[str]) -> dict[str, "WordPostings | None"]:
        """The postings of words, the rarest first; None: looking at all documents that have it would take too long."""
        found = self.index.find_postings(sorted(words))
        sizes = {word: size for word, one in found.items() if (size := self._measure(word, one))}
        kept: dict[str, WordPostings | None] = {}
        looked_at = 0
        for word in sorted(sizes, key=lambda one: sizes[one]):
            looked_at += sizes[word]
            kept[word] = self._read(found[word]) if looked_at <= MOST_POSTINGS else None
        return kept

    def _measure(self, word: str, found: FoundPostings) -> int:
        """In how many visible documents a word is."""
        if self.is_whole:
            return found.size
        size = self.frequent.get(word)
        if size is None:
            size = int(np.count_nonzero(self.visible[found.read_rows()]))
            if found.size > FREQUENT:
                self.frequent[word] = size
        return size

    def _read(self, found: FoundPostings) -> "WordPostings":
        rows, counts = found.read_rows(), found.read_counts()
        if not self.is_whole:
            here = self.visible[rows]
            rows, counts = rows[here], counts[here]
        rarity = compute_rarity(len(rows), self.count)
        density = counts / (counts + self.damping[rows])
        gains = (rarity * (1 - DENSITY + DENSITY * density)).astype(np.float32)
        return WordPostings(rows.astype(np.intp), gains, rarity)

    def _list_best(self, found: RatedRows, limit: int) -> list[WordMatch]:
        rows, scores = found
        if len(rows) > limit:
            best = scores >= np.partition(scores, len(rows) - limit)[len(rows) - limit]
            rows, scores = rows[best], scores[best]
        order = np.lexsort((rows, -self.index.changed[rows], -scores))[:limit]
        return [
            WordMatch(self.index.ids[row], float(score)) for row, score in zip(rows[order], scores[order], strict=True)
        ]


def _rate(words: Sequence[str], postings: Mapping[str, WordPostings | None], count: int, sums: Floats) -> RatedRows:
    """How well rows match one query: the root of the share of its words, by their rarity, that a document has.

    A word that no document has counts half as much as the rarest: without it, a single common word would do.
    """
    distinct = dict.fromkeys(words)
    used = [one for word in distinct if (one := postings.get(word)) is not None]
    for rows, gains, _ in used:
        sums[rows] += gains
    unknown = sum(word not in postings for word in distinct)
    total = sum(one.rarity for one in used) + unknown * compute_rarity(0, count) / 2
    hits = np.flatnonzero(sums > 0)  # of floats themselves, it takes ten times as long
    scores = np.sqrt(sums[hits] / np.float32(total or 1.0))
    sums[hits] = 0
    return RatedRows(hits, scores)


def _take_best(rated: Sequence[RatedRows], best: Floats) -> RatedRows:
    """The rows that match any of the queries, as well as the one that they match best."""
    for rows, scores in rated:
        best[rows] = np.maximum(best[rows], scores)
    hits = np.flatnonzero(best > 0)
    scores = best[hits]
    best[hits] = 0
    return RatedRows(hits, scores)


def compute_rarity(documents: int, count: int) -> float:
    """How much a word says that so many of `count` documents have."""
    return float(np.log1p((count - documents + 0.5) / (documents + 0.5)))


def _merge_small(segments: tuple[WordSegment, ...]) -> tuple[WordSegment, ...]:
    """Segments of which each is at least twice as large as the next: few, and each posting is rarely moved."""
    while len(segments) > 1 and len(segments[-2].rows) < 2 * len(segments[-1].rows):
        segments = (*segments[:-2], join_segments(segments[-2:]))
    return segments
