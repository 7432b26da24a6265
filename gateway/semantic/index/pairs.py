"""Neighbouring words: where "card payment" stands, more is said than where a card and a payment occur."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
Marks = NDArray[np.uint64]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_SPREAD = np.uint64(0x9E3779B1)  # odd and far from round, so that "a b" and "b a" are told apart
_UNSPACED = "\u0e00"  # from here on, terms are pairs of characters already and their pairs only cost room


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Which documents have which pair: 32 bits of the pair's hash and 32 of the document's number, ascending.

    A hash depends on the two words alone: no document that is hidden can change what is found.
    """

    packed: Marks

    @classmethod
    def none(cls) -> Self:
        return cls(np.empty(0, np.uint64))

    def revised(self, places: Rows, texts: Mapping[int, Sequence[str]]) -> Self:
        """The same after a change: `places` says by document where it stands now (-1: nowhere), `texts` what is new."""
        moved = places[self._documents(self.packed)]
        stays = moved >= 0
        kept = (self.packed[stays] & ~_LOW) | moved[stays].astype(np.uint64)
        # numpy's own `unique` hashes before it sorts, which takes eighty times as long as to sort alone.
        packed = np.sort(np.concatenate([kept, _packed(texts)]))
        first = np.ones(len(packed), np.bool_)
        first[1:] = packed[1:] != packed[:-1]
        return type(self)(packed[first])

    def documents(self, query: Sequence[str]) -> list[Rows]:
        """The documents of each pair of neighbours in a query, every pair once."""
        keys = np.array([*dict.fromkeys(_keys(_marks(query)).tolist())], np.uint64)
        keys = keys[keys > 0]
        ends = np.searchsorted(self.packed, np.stack([keys << _HALF, (keys << _HALF) | _LOW]), side="left")
        return [self._documents(self.packed[first:last]) for first, last in ends.T.tolist()]

    @staticmethod
    def _documents(packed: Marks) -> Rows:
        return (packed & _LOW).astype(np.intp)


def _packed(texts: Mapping[int, Sequence[str]]) -> Marks:
    numbers = np.repeat(np.array([*texts], np.uint64), [len(words) for words in texts.values()])
    keys = _keys(_marks(chain.from_iterable(texts.values())))
    pairs = (keys > 0) & (numbers[1:] == numbers[:-1])
    packed: Marks = (keys[pairs] << _HALF) | numbers[1:][pairs]
    return packed


def _marks(words: Sequence[str] | chain[str]) -> Marks:
    return np.fromiter(map(_mark, words), np.uint64)


def _keys(marks: Marks) -> Marks:
    """A hash of each word and the next; 0 where there is none to speak of."""
    keys: Marks = (marks[:-1] * _SPREAD + marks[1:]) & _LOW
    keys[(marks[:-1] == 0) | (marks[1:] == 0)] = 0
    return keys


@lru_cache(65_536)
def _mark(word: str) -> int:
    return 0 if word[:1] >= _UNSPACED else zlib.crc32(word.encode("utf-8", "surrogatepass"))
