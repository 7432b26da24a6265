"""What some readers find by words: the best documents, without reading postings that cannot change which these are."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.word_index import Floats, WordIndex
from gateway.semantic.index.word_postings import Counts, FoundPostings

Flags = NDArray[np.bool_]
Places = NDArray[np.intp]

K1, B = 1.2, 0.6  # as in the lexical index of resources
FREQUENT = 2_000  # documents from which on it is worth remembering how many have a word
MOST_POSTINGS = 20_000  # that a search looks at: the rarest words first, the most frequent ones are left out
MOST_WORDS = 24  # of a query
DENSITY = 0.2  # of the score: how much of a document is about the words that it has
ROUNDING = 1e-5  # relative error of a sum, and far more than that


class WordMatch(NamedTuple):
    """A document that has words of a query."""

    id: str
    score: float  # 0..1


class WeighedWord(NamedTuple):
    """A word that visible documents have."""

    found: FoundPostings
    size: int  # how many have it
    rarity: float  # what it adds to the score of a document at most; it adds at least all but DENSITY of that


class RatedRows(NamedTuple):
    """Rows that match a query, and how well."""

    rows: Places
    scores: Floats  # 0..1, or what words add up to


NOTHING_RATED = RatedRows(np.empty(0, np.intp), np.empty(0, np.float32))


class WordView(msgspec.Struct, frozen=True, eq=False):
    """An index as some readers see it: nothing that is hidden from them makes a difference to what they find."""

    index: WordIndex
    visible: Flags  # by row
    count: int  # of visible documents
    damping: Floats  # by row: what slows the growth of a word's count, more in long documents
    is_whole: bool = False  # every row is visible
    frequent: dict[str, int] = {}  # in how many visible documents words are that many have

    @classmethod
    def open(cls, index: WordIndex, groups: Collection[int]) -> Self:
        """What of an index the readers of these groups see: documents with words. Worth keeping with the index."""
        allowed = np.zeros(int(index.groups.max(initial=-1)) + 2, np.bool_)  # the last stands for -1
        allowed[[one for one in groups if one < len(allowed) - 1]] = True
        visible = allowed[index.groups] & (index.lengths > 0)
        mean = float(index.lengths[visible].mean()) if visible.any() else 1.0
        damping = K1 * (1 - B + B * index.lengths / max(1.0, mean))
        return cls(index, visible, int(visible.sum()), damping.astype(np.float32), bool(visible.all()))

    @property
    def is_quick(self) -> bool:
        """Whether no search looks at more than MOST_POSTINGS: where some are hidden, all are read to be counted."""
        return self.is_whole or len(self.visible) <= MOST_POSTINGS // MOST_WORDS

    def search(self, queries: Sequence[Sequence[str]], limit: int) -> list[WordMatch]:
        """The visible documents that match one of the queries best, best first."""
        if not (self.count and queries and limit > 0):
            return []
        known = self._weigh({word for words in queries for word in words[:MOST_WORDS]})
        rated = [self._rate(words[:MOST_WORDS], known, limit) for words in queries]
        return self._list_best(rated[0] if len(rated) == 1 else _join(rated), limit)

    def _weigh(self, words: Collection[str]) -> dict[str, WeighedWord | None]:
        """The words that documents have; None: looking at all documents that have it would take too long."""
        found = self.index.find_postings(sorted(words))
        sizes = {word: size for word, one in found.items() if (size := self._measure(word, one))}
        known: dict[str, WeighedWord | None] = {}
        looked_at = 0
        for word in sorted(sizes, key=lambda one: sizes[one]):
            size = sizes[word]
            looked_at += size
            rarity = compute_rarity(size, self.count)
            known[word] = WeighedWord(found[word], size, rarity) if looked_at <= MOST_POSTINGS else None
        return known

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

    def _rate(self, words: Sequence[str], known: Mapping[str, WeighedWord | None], limit: int) -> RatedRows:
        """How well rows match one query: the root of the share of its words, by their rarity, that a document has.

        A word that no document has counts half as much as the rarest: without it, a single common word would do. Of all
        rows, those are rated that are among the `limit` best, or as good.
        """
        distinct = dict.fromkeys(words)
        used = [one for word in distinct if (one := known.get(word)) is not None]
        if not used:
            return NOTHING_RATED
        unknown = sum(word not in known for word in distinct)
        total = np.float32(sum(one.rarity for one in used) + unknown * compute_rarity(0, self.count) / 2)
        decisive = _find_decisive(used, limit)
        rated = self._add_up([one for one in used if one.rarity >= decisive])
        rest = sum(one.rarity for one in used if one.rarity < decisive)
        rows, sums = _keep_best(rated, limit, rest)
        if rest:
            rows = np.sort(rows)
            rows, sums = _keep_best(RatedRows(rows, self._look_up(rows, used)), limit)
        return RatedRows(rows, np.sqrt(sums / total))

    def _add_up(self, words: Sequence[WeighedWord]) -> RatedRows:
        """What some words add to the scores of all rows that have one of them."""
        if len(words) == 1:
            return self._read(words[0])
        sums = self.index.memory.take(len(self.damping))
        new: list[Places] = []
        for one in words:
            rows, gains = self._read(one)
            before = sums[rows]
            new.append(rows[before == 0])
            sums[rows] = before + gains
        rows = np.concatenate(new)
        added = sums[rows]
        sums[rows] = 0
        self.index.memory.give_back(sums)
        return RatedRows(rows, added)

    def _read(self, word: WeighedWord) -> RatedRows:
        """The visible rows that have a word, and what it adds to their scores."""
        rows, counts = word.found.read_rows().astype(np.intp), word.found.read_counts()
        if not self.is_whole:
            here = self.visible[rows]
            rows, counts = rows[here], counts[here]
        return RatedRows(rows, self._compute_gains(word, rows, counts))

    def _look_up(self, rows: Places, words: Sequence[WeighedWord]) -> Floats:
        """What words add to the scores of some visible rows, which are in ascending order."""
        sums, wanted = np.zeros(len(rows), np.float32), rows.astype(np.int32)
        for one in words:
            listed = one.found.read_rows()
            places = np.minimum(listed.searchsorted(wanted), len(listed) - 1)
            here = np.flatnonzero(listed[places] == wanted)
            sums[here] += self._compute_gains(one, rows[here], one.found.read_counts()[places[here]])
        return sums

    def _compute_gains(self, word: WeighedWord, rows: Places, counts: Counts) -> Floats:
        """What a word adds to the score of rows that have it so many times."""
        density = counts / (counts + self.damping[rows])
        return (word.rarity * (1 - DENSITY + DENSITY * density)).astype(np.float32)

    def _list_best(self, found: RatedRows, limit: int) -> list[WordMatch]:
        rows, scores = _keep_best(found, limit)
        order = np.lexsort((rows, -self.index.changed[rows], -scores))[:limit]
        best = zip(rows[order].tolist(), scores[order].tolist(), strict=True)
        return [WordMatch(self.index.ids[row], score) for row, score in best]


def _find_decisive(words: Sequence[WeighedWord], limit: int) -> float:
    """The rarity of the words without which no document is among the best.

    As many documents as are wanted have a word and score at least what that adds to each; what has only words that
    add less than that all together is not among them.
    """
    least = max((one.rarity for one in words if one.size >= limit), default=0.0) * (1 - DENSITY) * (1 - ROUNDING)
    rest = 0.0
    for rarity in sorted(one.rarity for one in words):
        rest += rarity
        if rest >= least:
            return rarity
    raise AssertionError("all words together add more than one of them")


def _keep_best(rated: RatedRows, limit: int, more: float = 0.0) -> RatedRows:
    """The `limit` best rows, all that are as good as the last of them, and all that `more` may lift up to it."""
    rows, scores = rated
    if len(rows) <= limit:
        return rated
    lowest = np.partition(scores, len(rows) - limit)[len(rows) - limit]
    best = scores >= (lowest if not more else lowest * (1 - ROUNDING) - more)
    return RatedRows(rows[best], scores[best])


def _join(rated: Sequence[RatedRows]) -> RatedRows:
    """The rows that match any of the queries, as well as the one that they match best."""
    rows, scores = (np.concatenate(parts) for parts in zip(*rated, strict=True))
    order = np.lexsort((-scores, rows))
    rows, scores = rows[order], scores[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = rows[1:] != rows[:-1]
    return RatedRows(rows[first], scores[first])


def compute_rarity(documents: int, count: int) -> float:
    """How much a word says that so many of `count` documents have."""
    return float(np.log1p((count - documents + 0.5) / (documents + 0.5)))
