"""Semantic search: queries in, picks out, in time or not at all."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from gateway.domain.agent import SelectionSettings
from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.search import Query, SearchResult
from gateway.errors import WorkspaceBusy
from gateway.fair_queue import FairThreads
from gateway.semantic.index.indexer import Indexer
from gateway.semantic.index.nearest import NearestLookup
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.relations import RelationsBuilder
from gateway.semantic.model.embedder import EmbedderUnavailable, SearchTimeout
from gateway.semantic.search.admission import Admission
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.choice import (
    DomainQuery,
    NeighbourFinder,
    SearchDomain,
    SelectionRule,
    build_domains,
    select_picks,
)
from gateway.semantic.search.expansion import ExpansionRule, expand_picks
from gateway.semantic.search.query_cache import QueryCache
from gateway.semantic.search.question_embedder import QuestionEmbedder
from gateway.semantic.search.sentences import split_query
from gateway.semantic.search.text_scores import TextScores
from gateway.semantic.search.view import IndexViews
from gateway.settings import SemanticSettings
from gateway.stores.memory_vectors import MemoryVectorStore

LISTED = 50  # resources that a query of `list_context_resources` finds at most
RELEVANT = 0.002  # probability of what a tool lists: its reader judges for itself, and noise is ten times below
FAILURES = (EmbedderUnavailable, ValueError, WorkspaceBusy)  # the latter for vectors of different widths

log = logging.getLogger(__name__)


class SemanticEngine:
    """Answers from whatever index there is; while there is none, resources stay on demand."""

    def __init__(
        self,
        indexer: Indexer,
        settings: SemanticSettings,
        calibration: Calibration,
        lookup: NearestLookup | None = None,
        relations: RelationsBuilder | None = None,
        threads: FairThreads | None = None,
    ) -> None:
        self._indexer = indexer
        self._lookup = lookup
        self._settings = settings
        self._configured = SelectionSettings.from_data(settings.model_dump())
        self._calibration = calibration
        memory = MemoryBudget(settings.cache_bytes)
        self._threads = threads or FairThreads("search")
        self._views = IndexViews(indexer, memory, self._threads)
        self._admission = Admission()
        self._relations = relations or RelationsBuilder()
        self._caught_up = asyncio.Event()
        self._expands = asyncio.Event()
        if settings.expansion.depth:
            self.enable_expansion()
        self._logged = ""
        self.cache = QueryCache(memory)
        self.scores = TextScores(self.cache, self._admission)
        self.questions = QuestionEmbedder(self.cache, self._admission)

    def fork(self, index: PassageIndex) -> "SemanticEngine":
        """The same search over another index, which nobody else uses."""
        indexer = Indexer(MemoryVectorStore())
        indexer.current = index
        forked = SemanticEngine(indexer, self._settings, self._calibration, threads=self._threads)
        forked.cache, forked._admission = self.cache, self._admission
        return forked

    @property
    def generation(self) -> int | None:
        """Of the policies that can be searched now."""
        words = self._views.current
        return words.index.generation if words is not None else None

    async def catch_up(self) -> None:
        """Return once the newest index serves."""
        await self._views.catch_up()
        self._caught_up.set()

    async def update_relations(self) -> None:
        """Keep what expansions look up in step with the index that serves, once somebody expands, until cancelled."""
        while True:
            await self._expands.wait()
            await self._caught_up.wait()
            self._caught_up.clear()
            words = self._views.current
            if words is not None:
                await self._relations.build(words.index, partial(self._is_serving, words))

    def enable_expansion(self) -> None:
        """Relate what the index holds from now on: somebody wants picks to be expanded."""
        self._expands.set()

    def _is_serving(self, words: IndexWords) -> bool:
        return self._views.current is words

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        words = self._views.current
        if words is None:
            stuck = self._indexer.current is None and self._indexer.progress.error is not None
            return SearchResult(reason="unavailable" if stuck else None, pending=frozenset(resources))
        pending = self._find_pending(words, resources)
        if not query.sentences or len(pending) == len(resources):
            return SearchResult(pending=pending)  # nothing to look for, or nothing that could be found yet
        settings = settings.override(self._configured)
        domains = build_domains(resources, words.tools, settings)
        try:
            async with self._admission.admit(workspace, self._within) as within:
                queries = await self._build_queries(workspace, query, domains, words, within)
                if not queries:
                    return SearchResult(pending=pending)
                find_neighbours = None
                if settings.expansion.depth:
                    rule = ExpansionRule.from_settings(settings.expansion, time.monotonic() + within)
                    find_neighbours = await self._make_neighbour_finder(words, tuple(resources), queries, rule)
                found = await self._threads.run(workspace, select_picks, queries, self._calibration, find_neighbours)
                return replace(found, pending=pending)
        except SearchTimeout:
            return SearchResult(reason="late", pending=pending)
        except FAILURES as error:
            self._log_failure(str(error))
            return SearchResult(reason="unavailable", pending=pending)

    async def rank(self, workspace: str, text: str, resources: Sequence[str]) -> list[str] | None:
        def list_relevant(query: DomainQuery) -> list[str]:
            ranking = query.rank(self._calibration)
            pairs = zip(ranking.resources, ranking.probabilities, strict=True)
            return [query.view.resources[column] for column, chance in pairs if chance >= RELEVANT][:LISTED]

        return await self._search_for_tool(workspace, text, resources, list_relevant)

    async def find_passages(self, workspace: str, text: str, resource: str) -> list[str]:
        def rank_passages(query: DomainQuery) -> list[str]:
            return query.view.rank_passages(query.sentences, query.vectors)

        return await self._search_for_tool(workspace, text, [resource], rank_passages) or []

    @property
    def _within(self) -> float:
        return self._settings.milliseconds / 1000

    def _find_pending(self, words: IndexWords, resources: Sequence[str]) -> frozenset[str]:
        """What has not been embedded yet; it goes first from now on."""
        index = words.index
        pending = frozenset(name for name in resources if name in index.missing or name not in index.numbers)
        if pending:
            self._indexer.prefer(pending)
        return pending

    async def _search_for_tool(
        self, workspace: str, text: str, resources: Sequence[str], answer: Callable[[DomainQuery], list[str]]
    ) -> list[str] | None:
        """What a tool searches for; None unless all of the resources can be searched."""
        words = self._views.current
        if words is None or self._find_pending(words, resources):
            return None
        everything = SearchDomain(tuple(resources), SelectionRule(top_k=self._settings.top_k))
        try:
            async with self._admission.admit(workspace, self._within) as within:
                queries = await self._build_queries(workspace, split_query(text), [everything], words, within)
                return await self._threads.run(workspace, answer, queries[0]) if queries else None
        except (SearchTimeout, *FAILURES):
            return None

    async def _build_queries(
        self, workspace: str, query: Query, domains: Sequence[SearchDomain], words: IndexWords, within: float
    ) -> list[DomainQuery]:
        """Every domain in which there is something to find, with the vectors of what is looked for."""
        began = time.monotonic()
        views = [(await self._views.get_view(words, domain.resources, workspace), domain.rule) for domain in domains]
        views = [(view, rule) for view, rule in views if len(view.rows)]
        if not query.sentences or not views:
            return []
        within = max(within - (time.monotonic() - began), 0.001)
        sentences = query.sentences
        vectors = await self.cache.embed(words.index.embedder, workspace, sentences, within)
        queries = [DomainQuery(sentences, vectors, view, rule) for view, rule in views]
        return [await self._look_up_nearest(one) for one in queries]

    async def _look_up_nearest(self, query: DomainQuery) -> DomainQuery:
        """The query with the nearest passages, if a server looks them up."""
        if self._lookup is None:
            return query
        return replace(query, nearest=await self._lookup.find_nearest(query.view, query.sentences, query.vectors))

    async def _make_neighbour_finder(
        self, words: IndexWords, resources: tuple[str, ...], queries: Sequence[DomainQuery], rule: ExpansionRule
    ) -> NeighbourFinder:
        """How to find what is near to picks: a reference may lead to a tool, so all that is visible is searched."""
        self.enable_expansion()
        view = queries[0].view if len(queries) == 1 else await self._views.get_view(words, resources)
        return lambda picks: expand_picks(view, picks, rule, self._relations.current)

    def _log_failure(self, reason: str) -> None:
        """Say once why semantic resources stay on demand."""
        if reason != self._logged:
            self._logged = reason
            log.warning("semantic resources stay on demand: %s", reason)
