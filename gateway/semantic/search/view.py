"""An index as one caller may see it: what is hidden has no influence on any score."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Self

import numpy as np

from gateway.semantic.index.holdings import id_of
from gateway.semantic.index.indexer import Indexer
from gateway.semantic.index.lexical import Lexical, Match, Scoped, terms
from gateway.semantic.index.nearest import LARGE, Nearby, dense_of, nearest
from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.search.languages import foreignness
from gateway.semantic.search.scoring import Centres, Evidence, Floats, Rows, best_per_owner

DEAD = 2  # times that a vocabulary may grow by words that may be gone before everything is read again


@dataclass(frozen=True, eq=False)
class IndexWords:
    """The words of an index: each resource one document, made of its passages and examples."""

    indexed: PassageIndex
    texts: dict[str, tuple[str, ...]]  # by resource: its passages; the documents stand in this order
    numbers: dict[str, int]  # of the documents, by resource
    lexical: Lexical
    tools: frozenset[str]  # those of the resources that are something to call
    fresh: int  # size of the vocabulary when everything was read

    @classmethod
    def of(cls, indexed: PassageIndex, former: Self | None = None) -> Self:
        """The words of an index; what it has in common with a former one need not be read again."""
        by_resource = groupby(indexed.passages, key=lambda passage: passage.resource)
        texts = {name: tuple(one.text for one in group) for name, group in by_resource}
        numbers = {name: number for number, name in enumerate(texts)}
        tools = frozenset(passage.resource for passage in indexed.passages if passage.tool)
        if former is None or len(former.lexical.vocabulary) > DEAD * former.fresh:
            lexical = Lexical.build([_terms(some) for some in texts.values()])
            return cls(indexed, texts, numbers, lexical, tools, len(lexical.vocabulary))
        kept = {name for name, some in texts.items() if former.texts.get(name) == some}
        places = np.array([numbers[name] if name in kept else -1 for name in former.texts], np.intp)
        new = {numbers[name]: _terms(some) for name, some in texts.items() if name not in kept}
        return cls(indexed, texts, numbers, former.lexical.revised(places, new), tools, former.fresh)

    def within(self, resources: Sequence[str]) -> Scoped:
        return self.lexical.within(np.array([self.numbers[name] for name in resources], np.intp))


@dataclass(frozen=True, eq=False)
class IndexView:
    """The visible resources as columns, their passages and examples as rows grouped by column."""

    indexed: PassageIndex
    resources: tuple[str, ...]  # by column: ids, as the caller's workspace knows them
    rows: Rows  # of the index
    owners: Rows  # by row: its column, ascending
    centres: Centres
    words: Scoped

    @classmethod
    def build(cls, indexed: PassageIndex, resources: Sequence[str], words: IndexWords) -> Self:
        """What can be seen of an index, by key; a resource without any vector is not among the columns."""
        rows = indexed.rows(resources)
        passages = [indexed.passages[row] for row in rows]
        columns = tuple(name for name, _ in groupby(passage.resource for passage in passages))
        numbers = {name: number for number, name in enumerate(columns)}
        owners = np.array([numbers[passage.resource] for passage in passages], np.intp)
        examples = np.zeros(len(columns), np.bool_)
        examples[[numbers[passage.resource] for passage in passages if passage.example]] = True
        exemplified = examples[owners]
        centres = Centres.of(indexed.index.vectors_of(rows[exemplified]), owners[exemplified], examples)
        return cls(indexed, tuple(map(id_of, columns)), rows, owners, centres, words.within(columns))

    @cached_property
    def columns(self) -> dict[str, int]:
        """By id: the column of a resource; made when an expansion asks for it."""
        return {name: column for column, name in enumerate(self.resources)}

    def evidence(self, sentences: Sequence[str], vectors: Floats, near: Nearby | None = None) -> Evidence:
        """What speaks for each resource, sentence by sentence; `near` if the nearest were looked up elsewhere."""
        index, matches = self.indexed.index, matched(sentences, self.words)
        if near is None and len(self.rows) > LARGE:
            near = nearest(index, self.rows, vectors)
        if near is None:
            dense = best_per_owner(index.scores_for(vectors, self.rows), self.owners)
        else:
            lexical = np.stack([match.score for match in matches])
            dense = dense_of(index, self.rows, self.owners, vectors, near, lexical)
        return weighed(sentences, vectors, dense, self.centres, matches)

    def passages(self, sentences: Sequence[str], vectors: Floats) -> list[str]:
        """The passages that answer best, whatever resource they are of; examples are questions, not answers."""
        texts = [self.indexed.passages[row] for row in self.rows]
        words = Lexical.build([terms(passage.text) for passage in texts]).within(np.arange(len(texts)))
        lexical = np.stack([words.match(terms(sentence)).score for sentence in sentences])
        shares = lexical / max(float(lexical.max()), 1e-9)
        scores = (self.indexed.index.scores_for(vectors, self.rows) + 0.2 * shares).max(0)
        order = np.argsort(-scores, kind="stable")
        return [texts[place].text for place in order if not texts[place].example]


def _terms(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in terms(text)]


def evidence_of(sentences: Sequence[str], vectors: Floats, dense: Floats, centres: Centres, words: Scoped) -> Evidence:
    """The same evidence in a request and in training: what a calibration was fitted on is what it judges."""
    return weighed(sentences, vectors, dense, centres, matched(sentences, words))


def matched(sentences: Sequence[str], words: Scoped) -> list[Match]:
    """How the words of each sentence match."""
    return [words.match(terms(sentence)) for sentence in sentences]


def weighed(
    sentences: Sequence[str], vectors: Floats, dense: Floats, centres: Centres, matches: Sequence[Match]
) -> Evidence:
    """Evidence from what is known of meanings and of words."""
    central, focused = centres.compare(vectors, dense)
    return Evidence(
        dense=dense,
        central=central,
        focused=focused,
        lexical=np.stack([match.score for match in matches]),
        coverage=np.stack([match.coverage for match in matches]),
        ceilings=np.array([match.ceiling for match in matches], np.float32),
        query_terms=np.array([len(terms(sentence)) for sentence in sentences], np.intp),
        foreign=np.array([foreignness(sentence) for sentence in sentences], np.float32),
        examples=centres.examples,
    )


VIEWS = 256  # scopes whose view is kept, …
NUMBERS = 64 * 2**20  # … and numbers (of 4 bytes) that they may take in all


class IndexViews:
    """What callers see of the index that serves: the newest one whose words are known.

    To read the words of a large index takes seconds; nobody waits for that, the former index serves meanwhile.
    """

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self._words: IndexWords | None = None
        self._reading: asyncio.Task[None] | None = None
        self._kept: OrderedDict[tuple[str, ...], asyncio.Task[IndexView]] = OrderedDict()

    @property
    def serving(self) -> IndexWords | None:
        """The index that serves, with its words; None until the first one is ready."""
        self._begin()
        return self._words

    async def catch_up(self) -> None:
        """Return once the newest index serves."""
        while (reading := self._begin()) is not None:
            await asyncio.shield(reading)

    async def of(self, words: IndexWords, resources: tuple[str, ...]) -> IndexView:
        """What a scope sees; several callers share the making, which goes on when they no longer wait for it."""
        if self._words is not words:  # a newer index has taken over meanwhile, and the views kept are of that one
            return await asyncio.to_thread(IndexView.build, words.indexed, resources, words)
        task = self._kept.get(resources)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(IndexView.build, words.indexed, resources, words))
            self._kept[resources] = task
            self._forget(words)
        self._kept.move_to_end(resources)
        return await asyncio.shield(task)

    def _begin(self) -> asyncio.Task[None] | None:
        """Read the words of the newest index unless that is done; the task that does it."""
        newest = self._indexer.current
        if self._reading is None and newest is not None and (self._words is None or self._words.indexed is not newest):
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read(self) -> None:
        assert self._indexer.current is not None
        try:
            words = await asyncio.to_thread(IndexWords.of, self._indexer.current, self._words)
            self._words = words
            self._kept.clear()
        finally:
            self._reading = None

    def _forget(self, words: IndexWords) -> None:
        """A view may hold a vector per resource, and a square of their dimensions."""
        width = words.indexed.index.vectors_of(np.empty(0, np.intp)).shape[1]
        while len(self._kept) > 1 and (
            len(self._kept) > VIEWS or sum(len(resources) + width for resources in self._kept) * width > NUMBERS
        ):
            self._kept.popitem(last=False)
