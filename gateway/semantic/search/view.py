"""An index as one caller may see it: what is hidden has no influence on any score."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Self

import msgspec
import numpy as np

from gateway.domain.memory_budget import ENTRY_BYTES, KEPT_SHARE, CachePartition, MemoryBudget
from gateway.fair_queue import FairThreads
from gateway.queue_bounds import BACKGROUND
from gateway.semantic.index.indexed_resources import get_resource_id
from gateway.semantic.index.indexer import Indexer
from gateway.semantic.index.lexical import LexicalIndex, LexicalMatch, LexicalView, extract_terms
from gateway.semantic.index.nearest import LARGE, NearestPassages, estimate_cosines, find_nearest
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.vector_index import Floats, Rows, take_best_per_owner
from gateway.semantic.search.scoring import Evidence, ExampleCentres, measure_foreignness

CARRIED = 32  # workspaces that find their view ready when a newer index serves: those that asked last
NAME_BYTES = 200  # of a resource's id, once in the view, once in the key, and in a dictionary for expansions


class IndexView(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """The visible resources as columns, their passages and examples as rows grouped by column."""

    index: PassageIndex
    resources: tuple[str, ...]  # by column: ids, as the caller's workspace knows them
    rows: Rows  # of the index
    owners: Rows  # by row: its column, ascending
    centres: ExampleCentres
    words: LexicalView

    @classmethod
    def build(cls, words: IndexWords, resources: Sequence[str]) -> Self:
        """What of an index these resources (by key) show; one without any vector is not among the columns."""
        index = words.index
        rows = index.find_rows(resources)
        passages = [index.passages[row] for row in rows]
        columns = tuple(name for name, _ in groupby(passage.resource for passage in passages))
        numbers = {name: number for number, name in enumerate(columns)}
        owners = np.array([numbers[passage.resource] for passage in passages], np.intp)
        examples = np.zeros(len(columns), np.bool_)
        examples[[numbers[passage.resource] for passage in passages if passage.example]] = True
        exemplified = examples[owners]
        vectors = index.vectors.get_vectors(rows[exemplified])
        centres = ExampleCentres.build(vectors, owners[exemplified], examples)
        return cls(index, tuple(map(get_resource_id, columns)), rows, owners, centres, words.restrict(columns))

    @property
    def nbytes(self) -> int:
        """What it takes besides the index."""
        centres, words = self.centres, self.words
        arrays = (self.rows, self.owners, centres.examples, centres.plain, centres.focused, words.places, words.damping)
        transform = centres.transform.nbytes if centres.transform is not None else 0
        return sum(array.nbytes for array in arrays) + transform + NAME_BYTES * len(self.resources)

    @cached_property
    def columns(self) -> dict[str, int]:
        """By id: the column of a resource; made when an expansion needs it."""
        return {name: column for column, name in enumerate(self.resources)}

    def collect_evidence(
        self, sentences: Sequence[str], vectors: Floats, near: NearestPassages | None = None
    ) -> Evidence:
        """What speaks for each resource, sentence by sentence; `near` if the nearest were looked up elsewhere."""
        index, matches = self.index.vectors, match_words(sentences, self.words)
        if near is None and len(self.rows) > LARGE:
            near = find_nearest(index, self.rows, vectors)
        if near is None:
            dense = take_best_per_owner(index.compute_scores(vectors, self.rows), self.owners)
        else:
            lexical = np.stack([match.score for match in matches])
            dense = estimate_cosines(index, self.rows, self.owners, vectors, near, lexical)
        return combine_evidence(sentences, vectors, dense, self.centres, matches)

    def rank_passages(self, sentences: Sequence[str], vectors: Floats) -> list[str]:
        """The passages, best answer first, whatever resource they are of; examples are questions, not answers."""
        passages = [self.index.passages[row] for row in self.rows]
        lexical_index = LexicalIndex.build([extract_terms(passage.text) for passage in passages])
        words = lexical_index.restrict(np.arange(len(passages)))
        lexical = np.stack([match.score for match in match_words(sentences, words)])
        shares = lexical / max(float(lexical.max()), 1e-9)
        scores = (self.index.vectors.compute_scores(vectors, self.rows) + 0.2 * shares).max(0)
        order = np.argsort(-scores, kind="stable")
        return [passages[place].text for place in order if not passages[place].example]


def match_words(sentences: Sequence[str], words: LexicalView) -> list[LexicalMatch]:
    """How the words of each sentence match."""
    return [words.match(extract_terms(sentence)) for sentence in sentences]


def combine_evidence(
    sentences: Sequence[str],
    vectors: Floats,
    dense: Floats,
    centres: ExampleCentres,
    matches: Sequence[LexicalMatch],
) -> Evidence:
    """Evidence from the cosines and from the words: the same in a request and in the training of a calibration."""
    cosines = centres.compare(vectors, dense)
    return Evidence(
        dense=dense,
        central=cosines.central,
        focused=cosines.focused,
        lexical=np.stack([match.score for match in matches]),
        coverage=np.stack([match.coverage for match in matches]),
        ceilings=np.array([match.ceiling for match in matches], np.float32),
        query_terms=np.array([len(extract_terms(sentence)) for sentence in sentences], np.intp),
        foreign=np.array([measure_foreignness(sentence) for sentence in sentences], np.float32),
        examples=centres.examples,
    )


class IndexViews:
    """What callers see of the index that serves: the newest one whose words were read.

    Reading the words of a large index takes seconds; nobody waits for that, the former index serves meanwhile.
    """

    def __init__(
        self, indexer: Indexer, memory: MemoryBudget | None = None, threads: FairThreads | None = None
    ) -> None:
        self._indexer = indexer
        self._threads = threads or FairThreads("views")
        self._memory = memory or MemoryBudget()
        self._words: IndexWords | None = None
        self._reading: asyncio.Task[None] | None = None
        self._partitions: dict[str, CachePartition] = {}
        self._asked: OrderedDict[str, tuple[str, ...]] = OrderedDict()  # by workspace: what it saw last, of this index

    @property
    def current(self) -> IndexWords | None:
        """The index that serves, with its words; None until the first one is ready."""
        self._begin_reading()
        return self._words

    async def catch_up(self) -> None:
        """Return once the newest index serves."""
        while (reading := self._begin_reading()) is not None:
            await asyncio.shield(reading)

    async def get_view(self, words: IndexWords, resources: tuple[str, ...], workspace: str = "") -> IndexView:
        """What a scope sees; callers share one build, which goes on when they no longer wait for it."""
        self._asked[workspace] = resources
        self._asked.move_to_end(workspace)
        if len(self._asked) > CARRIED:
            self._asked.popitem(last=False)
        if self._words is not words:  # a newer index serves meanwhile, and the views that are kept are of that one
            return await self._threads.run(workspace, IndexView.build, words, resources)
        kept = self._open_partition(workspace)
        task: asyncio.Task[IndexView] | None = kept.get(resources)
        if task is None:
            task = asyncio.create_task(self._threads.run(workspace, IndexView.build, words, resources))
            kept.put(resources, task, 0)
            task.add_done_callback(lambda built: self._weigh(kept, resources, built))
        return await asyncio.shield(task)

    def _open_partition(self, workspace: str) -> CachePartition:
        kept = self._partitions.get(workspace)
        if kept is None:
            kept = self._partitions[workspace] = self._memory.open(workspace)
        return kept

    def _weigh(self, kept: CachePartition, resources: tuple[str, ...], built: asyncio.Task[IndexView]) -> None:
        """Count what a view takes, now that it is there, or drop it if there is none."""
        if kept.get(resources) is not built:
            return
        if built.cancelled() or built.exception() is not None:
            kept.drop(resources)
            return
        # A view too large for the bound is kept alone: building it for every question would be worse.
        kept.put(resources, built, min(built.result().nbytes, int(self._memory.max_bytes * KEPT_SHARE) - ENTRY_BYTES))

    def _begin_reading(self) -> asyncio.Task[None] | None:
        """Read the words of the newest index unless that is done; the task that does it."""
        newest = self._indexer.current
        if self._reading is None and newest is not None and (self._words is None or self._words.index is not newest):
            self._reading = asyncio.create_task(self._read_words())
        return self._reading

    async def _read_words(self) -> None:
        assert self._indexer.current is not None
        try:
            words = await self._threads.run(BACKGROUND, IndexWords.build, self._indexer.current, self._words)
            carried = await self._build_carried(words)
            self._words = words
            self._partitions.clear()
            for (workspace, resources), built in carried.items():
                kept = self._open_partition(workspace)
                kept.put(resources, built, 0)
                self._weigh(kept, resources, built)
        finally:
            self._reading = None

    async def _build_carried(self, words: IndexWords) -> dict[tuple[str, tuple[str, ...]], asyncio.Task[IndexView]]:
        """The views of a newer index for those who asked lately: nobody's question waits because another changed."""
        asked, self._asked = self._asked, OrderedDict()
        carried = {}
        for workspace, resources in asked.items():
            build = self._threads.run(BACKGROUND, IndexView.build, words, resources)
            carried[workspace, resources] = task = asyncio.create_task(build)
            await asyncio.wait([task])
        return carried
