"""The lexical half of the hybrid score: terms of any script, BM25 over postings in numpy, and pairs of neighbours."""

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.domain.normal_form import normalize_text
from gateway.semantic.index.vector_index import Floats, Rows

Hashes = NDArray[np.uint64]

K1 = 1.2  # between .6 and 2 nothing changes by more than a point on any set
B = 0.6
PAIR = 0.4  # what a pair of neighbours weighs beside its two words

# Scripts written without spaces: Thai, kana, Han and Hangul become overlapping pairs of characters.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
_UNSPACED_FROM = _UNSPACED[0]
_TOKEN = re.compile(rf"([{_UNSPACED}]+)|([^\W_{_UNSPACED}]+)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACCENTS = re.compile("[\u0300-\u036f]")
# English endings first of all, and those of German and Spanish that cost English nothing; longest first.
_ENDINGS = ("ments", "ions", "ings", "edly", "ment", "ing", "ies", "ied", "ers", "ion", "ed", "es", "ly", "er", "en")
_SHORT_ENDINGS = ("os", "as", "s", "e", "y", "a", "o")
_STEM = 4  # characters that always stay

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_SPREAD = np.uint64(0x9E3779B1)  # odd and far from round, so that "a b" and "b a" differ


def extract_terms(text: str) -> list[str]:
    """The index terms of a text in reading order: stems of words, pairs of characters where words have no spaces."""
    found: list[str] = []
    for unspaced, word in _TOKEN.findall(_CAMEL.sub(" ", normalize_text("NFKC", text))):
        if unspaced:
            found.extend(_split_into_pairs(unspaced))
        else:
            found.append(stem(word.casefold()))
    return found


@lru_cache(65_536)  # texts repeat their words: reading an index takes less than half as long
def stem(word: str) -> str:
    """A word without accents and ending, so that its forms meet; short words and numbers stay as they are."""
    if len(word) <= _STEM or not word.isalpha():
        return word
    word = _ACCENTS.sub("", unicodedata.normalize("NFD", word))
    for ending in (*_ENDINGS, *_SHORT_ENDINGS):
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return _drop_double_letter(word[: -len(ending)])
    return word


def _drop_double_letter(word: str) -> str:
    """ "stopp" becomes "stop"; "fall" and "pass" keep their letters."""
    doubled = len(word) > _STEM and word[-1] == word[-2] and word[-1] not in "aeiouls"
    return word[:-1] if doubled else word


def _split_into_pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


class WordPairs(msgspec.Struct, frozen=True, eq=False):
    """Which documents have which pair of neighbours: where "card payment" stands, more is said than by both words.

    Each entry is 32 bits of the pair's hash and 32 of the document's number, ascending. A hash depends on the two
    words alone: no document that is hidden can change what is found.
    """

    packed: Hashes

    @classmethod
    def empty(cls) -> Self:
        return cls(np.empty(0, np.uint64))

    def revise(self, places: Rows, texts: Mapping[int, Sequence[str]]) -> Self:
        """The pairs after a change: `places` has each document's new number (-1: removed), `texts` the new ones."""
        moved = places[self._read_documents(self.packed)]
        stays = moved >= 0
        kept = (self.packed[stays] & ~_LOW) | moved[stays].astype(np.uint64)
        # numpy's own `unique` hashes before it sorts, which takes eighty times as long as sorting alone.
        packed = np.sort(np.concatenate([kept, _pack_pairs(texts)]))
        first = np.ones(len(packed), np.bool_)
        first[1:] = packed[1:] != packed[:-1]
        return type(self)(packed[first])

    def find_documents(self, query: Sequence[str]) -> list[Rows]:
        """The documents of each pair of neighbours in a query, every pair once."""
        keys = np.array([*dict.fromkeys(_hash_pairs(_hash_words(query)).tolist())], np.uint64)
        keys = keys[keys > 0]
        ends = np.searchsorted(self.packed, np.stack([keys << _HALF, (keys << _HALF) | _LOW]), side="left")
        return [self._read_documents(self.packed[first:last]) for first, last in ends.T.tolist()]

    @staticmethod
    def _read_documents(packed: Hashes) -> Rows:
        return (packed & _LOW).astype(np.intp)


def _pack_pairs(texts: Mapping[int, Sequence[str]]) -> Hashes:
    numbers = np.repeat(np.array([*texts], np.uint64), [len(words) for words in texts.values()])
    keys = _hash_pairs(_hash_words(chain.from_iterable(texts.values())))
    pairs = (keys > 0) & (numbers[1:] == numbers[:-1])
    packed: Hashes = (keys[pairs] << _HALF) | numbers[1:][pairs]
    return packed


def _hash_words(words: Iterable[str]) -> Hashes:
    return np.fromiter(map(_hash_word, words), np.uint64)


def _hash_pairs(words: Hashes) -> Hashes:
    """A hash of each word and the next; 0 where one of them has none."""
    keys: Hashes = (words[:-1] * _SPREAD + words[1:]) & _LOW
    keys[(words[:-1] == 0) | (words[1:] == 0)] = 0
    return keys


@lru_cache(65_536)
def _hash_word(word: str) -> int:
    """0 for a term of an unspaced script: it is a pair of characters already, and pairs of those only cost memory."""
    return 0 if word[:1] >= _UNSPACED_FROM else zlib.crc32(word.encode("utf-8", "surrogatepass"))


class LexicalMatch(msgspec.Struct, frozen=True, eq=False):
    """How well documents match one query, document by document."""

    score: Floats  # BM25 of words and of pairs of neighbours, from 0
    coverage: Floats  # share of the query's terms that occur, weighted by how rare they are
    ceiling: float  # about what a document made of nothing but the query's terms, in any order, would score


class LexicalIndex(msgspec.Struct, frozen=True, eq=False):
    """Postings of a collection: for each term the documents it is in, and how often."""

    vocabulary: dict[str, int]
    starts: Rows  # by term: where its postings begin; one more at the end
    documents: Rows
    counts: Floats
    lengths: Floats  # by document, in terms
    pairs: WordPairs

    @classmethod
    def build(cls, texts: Sequence[Sequence[str]]) -> Self:
        """Postings of documents that are given as their terms."""
        none, zero = np.empty(0, np.intp), np.empty(0, np.float32)
        empty = cls({}, np.zeros(1, np.intp), none, zero, zero, WordPairs.empty())
        return empty.revise(np.empty(0, np.intp), dict(enumerate(texts)))

    def revise(self, places: Rows, texts: Mapping[int, Sequence[str]]) -> Self:
        """The postings after a change: `places` has each document's new number (-1: removed), `texts` the new ones."""
        vocabulary = dict(self.vocabulary)
        term, document, count = [], [], []
        for number, words in texts.items():
            for word, times in Counter(words).items():
                term.append(vocabulary.setdefault(word, len(vocabulary)))
                document.append(number)
                count.append(times)
        stays = places[self.documents] >= 0
        former = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))[stays]
        terms = np.concatenate([former, np.array(term, np.intp)])
        documents = np.concatenate([places[self.documents][stays], np.array(document, np.intp)])
        counts = np.concatenate([self.counts[stays], np.array(count, np.float32)])
        lengths = np.zeros(int((places >= 0).sum()) + len(texts), np.float32)
        lengths[places[places >= 0]] = self.lengths[places >= 0]
        lengths[list(texts)] = [len(words) for words in texts.values()]
        order = np.argsort(terms, kind="stable")
        starts = np.searchsorted(terms[order], np.arange(len(vocabulary) + 1))
        pairs = self.pairs.revise(places, texts)
        return type(self)(vocabulary, starts, documents[order], counts[order], lengths, pairs)

    def restrict(self, rows: Rows) -> "LexicalView":
        """The same postings for some documents only. Worth keeping per scope."""
        places = np.full(len(self.lengths), -1, np.intp)
        places[rows] = np.arange(len(rows))
        lengths = self.lengths[rows]
        mean = float(lengths.mean()) if len(rows) else 1.0
        damping = (K1 * (1 - B + B * lengths / max(mean, 1.0))).astype(np.float32)
        return LexicalView(self, places, damping, bool((places == np.arange(len(places))).all()))


class LexicalView(msgspec.Struct, frozen=True, eq=False):
    """A collection as one caller may see it: how rare a term is depends on nothing that is hidden."""

    index: LexicalIndex
    places: Rows  # by document: its place among the visible ones, -1 when hidden
    damping: Floats  # by visible document: what slows the growth of a term's count, more in long ones
    is_whole: bool = False  # every document is visible, at the place that it has in the index

    def match(self, query: Sequence[str]) -> LexicalMatch:
        """How well the visible documents match, in the order they were given in."""
        visible = len(self.damping)
        score, coverage = np.zeros(visible, np.float32), np.zeros(visible, np.float32)
        total = 0.0
        for word in dict.fromkeys(query):
            at, counts = self._find_postings(word)
            rarity = _compute_rarity(len(at), visible)
            total += rarity
            score[at] += rarity * counts * (K1 + 1) / (counts + self.damping[at])
            coverage[at] += rarity
        for documents in self.index.pairs.find_documents(query):
            at = self.places[documents]
            at = at[at >= 0]
            score[at] += PAIR * _compute_rarity(len(at), visible) * (K1 + 1) / (1 + self.damping[at])
        return LexicalMatch(score, coverage / max(total, 1e-9), total * (K1 + 1))

    def compute_coverage(self, query: Sequence[str]) -> Floats:
        """The coverage of `match` alone, in a fraction of the time."""
        visible, total = len(self.damping), 0.0
        coverage = np.zeros(visible, np.float32)
        for word in dict.fromkeys(query):
            at, _ = self._find_postings(word)
            rarity = _compute_rarity(len(at), visible)
            total += rarity
            coverage[at] += rarity
        return coverage / max(total, 1e-9)

    def _find_postings(self, word: str) -> tuple[Rows, Floats]:
        """The visible documents with a word, and how often each has it."""
        term = self.index.vocabulary.get(word)
        if term is None:
            return np.empty(0, np.intp), np.empty(0, np.float32)
        span = slice(self.index.starts[term], self.index.starts[term + 1])
        if self.is_whole:
            return self.index.documents[span], self.index.counts[span]
        at = self.places[self.index.documents[span]]
        seen = at >= 0
        return at[seen], self.index.counts[span][seen]


def _compute_rarity(documents: int, visible: int) -> float:
    return float(np.log1p((visible - documents + 0.5) / (documents + 0.5)))
