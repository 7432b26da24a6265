"""The search by meaning: questions in, picks out, in time or not at all."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gateway.domain.agent import SelectionSettings
from gateway.domain.search import Question, SearchResult
from gateway.semantic.index.indexer import Indexer
from gateway.semantic.index.nearest import Nearby, NearestLookup
from gateway.semantic.index.relations import RelationsBuilder
from gateway.semantic.model.embedder import EmbedderUnavailable, SearchTimeout
from gateway.semantic.search.admission import Admission
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.choice import Domain, DomainQuery, Near, SelectionRule, domains_of, found_in
from gateway.semantic.search.expansion import expand
from gateway.semantic.search.query_cache import QueryCache
from gateway.semantic.search.scoring import Floats
from gateway.semantic.search.sentences import searched
from gateway.semantic.search.view import IndexView, IndexViews, IndexWords
from gateway.settings import SemanticSettings

LISTED = 50  # resources that a query of `list_context_resources` finds at the most
RELEVANT = 0.002  # probability of what a tool lists: its reader judges for itself, and noise is ten times below
BROKEN = (EmbedderUnavailable, ValueError)  # the latter for vectors of different widths

log = logging.getLogger(__name__)


class SemanticEngine:
    """Answers from whatever index there is; while there is none, resources stay on demand."""

    def __init__(
        self,
        indexer: Indexer,
        settings: SemanticSettings,
        calibration: Calibration,
        lookup: NearestLookup | None = None,
    ) -> None:
        self._indexer = indexer
        self._lookup = lookup
        self._settings = settings
        self._configured = SelectionSettings.of(settings.model_dump())
        self._calibration = calibration
        self._views = IndexViews(indexer)
        self._admission = Admission()
        self._relating = RelationsBuilder()
        self._caught_up = asyncio.Event()
        self._complained = ""
        self.cache = QueryCache()

    @property
    def generation(self) -> int | None:
        """Of the policies that can be searched now."""
        words = self._views.serving
        return words.indexed.generation if words is not None else None

    async def catch_up(self) -> None:
        """Return once the newest index serves."""
        await self._views.catch_up()
        self._caught_up.set()

    async def relate(self) -> None:
        """Keep what expansions look up in step with the index that serves, until cancelled."""
        while self._settings.expansion.depth:
            await self._caught_up.wait()
            self._caught_up.clear()
            words = self._views.serving
            if words is not None:
                await self._relating.build(words.indexed, partial(self._serves, words))

    def _serves(self, words: IndexWords) -> bool:
        return self._views.serving is words

    async def find(
        self, workspace: str, question: Question, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        words = self._views.serving
        if words is None:
            stuck = self._indexer.current is None and self._indexer.progress.error is not None
            return SearchResult(reason="unavailable" if stuck else None, pending=frozenset(resources))
        pending = self._pending(words, resources)
        domains = domains_of(resources, words.tools, settings.over(self._configured))
        try:
            async with self._admission.place(self._within) as within:
                sentences = searched(question.text, question.earlier)
                asked = await self._ask(workspace, sentences, domains, words, within)
                near = await self._near(words, tuple(resources), asked)
                found = await asyncio.to_thread(found_in, asked, self._calibration, near)
                return replace(found, pending=pending)
        except SearchTimeout:
            return SearchResult(reason="late", pending=pending)
        except BROKEN as error:
            self._complain(str(error))
            return SearchResult(reason="unavailable", pending=pending)

    async def rank(self, workspace: str, query: str, resources: Sequence[str]) -> list[str] | None:
        def likely(asked: DomainQuery) -> list[str]:
            ranking = asked.ranking(self._calibration)
            pairs = zip(ranking.resources, ranking.probabilities, strict=True)
            return [asked.view.resources[column] for column, chance in pairs if chance >= RELEVANT][:LISTED]

        return await self._try(workspace, query, resources, likely)

    async def passages(self, workspace: str, query: str, resource: str) -> list[str]:
        found = await self._try(workspace, query, [resource], lambda one: one.view.passages(one.sentences, one.vectors))
        return found or []

    @property
    def _within(self) -> float:
        return self._settings.milliseconds / 1000

    def _pending(self, words: IndexWords, resources: Sequence[str]) -> frozenset[str]:
        """What has not been embedded yet; it goes first from now on."""
        indexed = words.indexed
        pending = frozenset(name for name in resources if name in indexed.missing or name not in indexed.numbers)
        if pending:
            self._indexer.prefer(pending)
        return pending

    async def _try(
        self, workspace: str, query: str, resources: Sequence[str], answer: Callable[[DomainQuery], list[str]]
    ) -> list[str] | None:
        """A search on behalf of a tool; None unless all that it should look at can be found."""
        words = self._views.serving
        if words is None or self._pending(words, resources):
            return None
        everything = Domain(tuple(resources), SelectionRule(top_k=self._settings.top_k))
        try:
            async with self._admission.place(self._within) as within:
                asked = await self._ask(workspace, searched(query), [everything], words, within)
                return await asyncio.to_thread(answer, asked[0]) if asked else None
        except (SearchTimeout, *BROKEN):
            return None

    async def _ask(
        self, workspace: str, sentences: list[str], domains: Sequence[Domain], words: IndexWords, within: float
    ) -> list[DomainQuery]:
        """Every domain in which there is something to find, with the vectors of what is looked for."""
        began = time.monotonic()
        seen = [(await self._views.of(words, domain.resources), domain.rule) for domain in domains]
        seen = [(view, rule) for view, rule in seen if len(view.rows)]
        if not sentences or not seen:
            return []
        within = max(within - (time.monotonic() - began), 0.001)
        vectors = await self.cache.embed(words.indexed.embedder, workspace, sentences, within)
        return [
            DomainQuery(sentences, vectors, view, rule, await self._nearby(view, sentences, vectors))
            for view, rule in seen
        ]

    async def _nearby(self, view: IndexView, sentences: list[str], vectors: Floats) -> Nearby | None:
        return await self._lookup.near(view, sentences, vectors) if self._lookup is not None else None

    async def _near(self, words: IndexWords, resources: tuple[str, ...], asked: Sequence[DomainQuery]) -> Near:
        """How to find what is near to picks: a reference may lead to a tool, so all that is visible is looked at."""
        settings = self._settings.expansion
        if not settings.depth or not asked:
            return lambda picks: []
        view = asked[0].view if len(asked) == 1 else await self._views.of(words, resources)
        return lambda picks: expand(view, picks, settings, self._relating.current)

    def _complain(self, reason: str) -> None:
        """Say once why semantic resources stay on demand."""
        if reason != self._complained:
            self._complained = reason
            log.warning("semantic resources stay on demand: %s", reason)
