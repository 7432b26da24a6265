"""The lexical half of the hybrid score: terms of any script, and BM25 over postings in numpy."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.pairs import Pairs

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]

K1 = 1.2  # between .6 and 2 nothing changes by more than a point on any set
B = 0.6
PAIR = 0.4  # what a pair of neighbours weighs beside its two words

# Scripts written without spaces: Thai, kana, Han and Hangul become overlapping pairs of characters.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
_TOKEN = re.compile(rf"([{_UNSPACED}]+)|([^\W_{_UNSPACED}]+)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACCENTS = re.compile("[\u0300-\u036f]")
# English endings first of all, and those of German and Spanish that cost English nothing; longest first.
_ENDINGS = ("ments", "ions", "ings", "edly", "ment", "ing", "ies", "ied", "ers", "ion", "ed", "es", "ly", "er", "en")
_SHORT_ENDINGS = ("os", "as", "s", "e", "y", "a", "o")
_STEM = 4  # characters that always stay


def terms(text: str) -> list[str]:
    """The index terms of a text in reading order: stems of words, pairs of characters where words have no spaces."""
    found: list[str] = []
    for unspaced, word in _TOKEN.findall(_CAMEL.sub(" ", unicodedata.normalize("NFKC", text))):
        if unspaced:
            found.extend(_pairs(unspaced))
        else:
            found.append(stem(word.casefold()))
    return found


@lru_cache(65_536)  # texts use the same words again and again: to read an index takes less than half as long
def stem(word: str) -> str:
    """A word without accents and its ending, so that its forms meet; short words and numbers stay as they are."""
    if len(word) <= _STEM or not word.isalpha():
        return word
    word = _ACCENTS.sub("", unicodedata.normalize("NFD", word))
    for ending in (*_ENDINGS, *_SHORT_ENDINGS):
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return _undoubled(word[: -len(ending)])
    return word


def _undoubled(word: str) -> str:
    """ "stopp" and "stop" are one word; "fall" and "pass" keep their letters."""
    doubled = len(word) > _STEM and word[-1] == word[-2] and word[-1] not in "aeiouls"
    return word[:-1] if doubled else word


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """How well documents match one query, document by document."""

    score: Floats  # BM25 of words and of pairs of neighbours, from 0
    coverage: Floats  # share of the query's terms that occur, weighted by how rare they are
    ceiling: float  # about what a document made of nothing but the query's terms, in any order, would score


@dataclass(frozen=True, slots=True, eq=False)
class Lexical:
    """Postings of a collection: for each term the documents it is in, and how often."""

    vocabulary: dict[str, int]
    starts: Rows  # by term: where its postings begin; one more at the end
    documents: Rows
    counts: Floats
    lengths: Floats  # by document, in terms
    pairs: Pairs

    @classmethod
    def build(cls, texts: Sequence[Sequence[str]]) -> Self:
        """Postings of documents that are given as their terms."""
        none, zero = np.empty(0, np.intp), np.empty(0, np.float32)
        empty = cls({}, np.zeros(1, np.intp), none, zero, zero, Pairs.none())
        return empty.revised(np.empty(0, np.intp), dict(enumerate(texts)))

    def revised(self, places: Rows, texts: Mapping[int, Sequence[str]]) -> Self:
        """The same after a change: `places` says by document where it stands now (-1: nowhere), `texts` what is new."""
        vocabulary = dict(self.vocabulary)
        term, document, count = [], [], []
        for number, words in texts.items():
            for word, times in Counter(words).items():
                term.append(vocabulary.setdefault(word, len(vocabulary)))
                document.append(number)
                count.append(times)
        stays = places[self.documents] >= 0
        former = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))[stays]
        terms_ = np.concatenate([former, np.array(term, np.intp)])
        documents = np.concatenate([places[self.documents][stays], np.array(document, np.intp)])
        counts = np.concatenate([self.counts[stays], np.array(count, np.float32)])
        lengths = np.zeros(int((places >= 0).sum()) + len(texts), np.float32)
        lengths[places[places >= 0]] = self.lengths[places >= 0]
        lengths[list(texts)] = [len(words) for words in texts.values()]
        order = np.argsort(terms_, kind="stable")
        starts = np.searchsorted(terms_[order], np.arange(len(vocabulary) + 1))
        pairs = self.pairs.revised(places, texts)
        return type(self)(vocabulary, starts, documents[order], counts[order], lengths, pairs)

    def within(self, rows: Rows) -> "Scoped":
        """The same postings for some documents only. Worth keeping per scope."""
        places = np.full(len(self.lengths), -1, np.intp)
        places[rows] = np.arange(len(rows))
        lengths = self.lengths[rows]
        mean = float(lengths.mean()) if len(rows) else 1.0
        return Scoped(self, places, (K1 * (1 - B + B * lengths / max(mean, 1.0))).astype(np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class Scoped:
    """A collection as one caller may see it: how rare a term is depends on nothing that is hidden."""

    lexical: Lexical
    places: Rows  # by document: its place among the visible ones, -1 when hidden
    damping: Floats  # by visible document: what slows the growth of a term's count, more in long ones

    def match(self, query: Sequence[str]) -> Match:
        """How well the visible documents match, in the order they were given in."""
        visible = len(self.damping)
        score, coverage = np.zeros(visible, np.float32), np.zeros(visible, np.float32)
        total = 0.0
        for word in dict.fromkeys(query):
            at, counts = self._postings(word)
            rarity = _rarity(len(at), visible)
            total += rarity
            score[at] += rarity * counts * (K1 + 1) / (counts + self.damping[at])
            coverage[at] += rarity
        for documents in self.lexical.pairs.documents(query):
            at = self.places[documents]
            at = at[at >= 0]
            score[at] += PAIR * _rarity(len(at), visible) * (K1 + 1) / (1 + self.damping[at])
        return Match(score, coverage / max(total, 1e-9), total * (K1 + 1))

    def _postings(self, word: str) -> tuple[Rows, Floats]:
        term = self.lexical.vocabulary.get(word)
        if term is None:
            return np.empty(0, np.intp), np.empty(0, np.float32)
        span = slice(self.lexical.starts[term], self.lexical.starts[term + 1])
        at = self.places[self.lexical.documents[span]]
        seen = at >= 0
        return at[seen], self.lexical.counts[span][seen]


def _rarity(documents: int, visible: int) -> float:
    return float(np.log1p((visible - documents + 0.5) / (documents + 0.5)))
