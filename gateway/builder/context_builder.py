"""Scope → contexts → candidates → search → selection → injection; each made once and shared by all who get the same."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from gateway.builder.prices import make_pricing
from gateway.builder.scope_context import (
    CacheKey,
    ContextTerms,
    KnownScope,
    ScopeContext,
    ScopeKey,
    ScopeKeys,
    make_query_key,
    make_scope_key,
    personalize,
    warn_of_window,
    weigh_context,
    weigh_findings,
    weigh_question,
    weigh_scope,
)
from gateway.collectors.contexts import Merge, collect_contexts
from gateway.collectors.effective import list_named_contexts, reduce_scope
from gateway.collectors.guard import run_collectors
from gateway.collectors.registry import AppliedCollector, CollectorRegistry
from gateway.collectors.semantic import replace_searcher
from gateway.domain.agent import DEFAULT_WEIGHTS, Placement, RankingWeights
from gateway.domain.chat import PAUSE_BYTES, ChatRequest
from gateway.domain.collector import CollectorOrder, CollectorOutcome, Findings
from gateway.domain.exchange import Exchange
from gateway.domain.injection import Injection, OwnTools
from gateway.domain.json_text import escape_json
from gateway.domain.lru import HitCounter
from gateway.domain.memory_budget import CachePartition, MemoryBudget, SharedValue
from gateway.domain.retriever import NO_RETRIEVERS
from gateway.domain.scope import Scope
from gateway.domain.search import Query, Question
from gateway.domain.snapshot import Snapshot
from gateway.domain.summary import SummaryOrder, SummarySource
from gateway.fair_queue import FairThreads
from gateway.injection.anchors import render_sticky
from gateway.injection.blocks import add_items, compute_block_tag, render, render_stable
from gateway.injection.tools import PLAIN_TOOLS
from gateway.scopes.scope import resolve_assignments
from gateway.selection.allotment import NOTHING_RESERVED, ShareSettings
from gateway.selection.collected import RETRIEVERS, select
from gateway.selection.cutter import Cutter
from gateway.selection.rank import Ranker
from gateway.selection.select import SelectionTerms, choose_budget, fill_scope, propose
from gateway.selection.sticky import digest_texts, keep_picks
from gateway.selection.window import WindowTable, fit_window
from gateway.semantic.search.sentences import split_question
from gateway.semantic.searcher import SemanticSearcher
from gateway.tokens import TokenCount, TokenCounter

ISOLATED_BYTES = 16 * 2**20  # that a builder for one preview may cache
NO_QUERY = Query(())

Result = TypeVar("Result")
MAX_KEYS = 4  # of a scope: a client may give its own tools any names


class ContextOrder(msgspec.Struct):
    """What an injection is built for."""

    exchange: Exchange
    scope: Scope
    model: str
    tools: OwnTools | None  # None: ours cannot be registered
    request: ChatRequest
    placement: Placement = Placement.SYSTEM
    keys: ScopeKeys = msgspec.field(default_factory=dict)  # of the scope, made before for a request of the same one

    @property
    def snapshot(self) -> Snapshot:
        return self.exchange.snapshot

    @property
    def workspace(self) -> str:
        return self.exchange.principal.workspace

    @property
    def tool_names(self) -> frozenset[str] | None:
        return None if self.tools is None else self.tools.names


class Inquiry(NamedTuple):
    """What a request asks, and the key of what is the same for all who ask it."""

    question: Question | None
    query: Query
    key: CacheKey


class ContextBuilder(msgspec.Struct, frozen=True):
    """Builds injections off the event loop and caches them as long as their snapshot is used."""

    counter: TokenCounter
    merge: Merge
    secret: bytes
    default_budget: int
    collectors: CollectorRegistry = msgspec.field(default_factory=CollectorRegistry)
    memory: MemoryBudget = msgspec.field(default_factory=MemoryBudget)
    threads: FairThreads = msgspec.field(default_factory=lambda: FairThreads("builder"))
    seconds: float = 0.2  # that a request waits for its collectors
    shares: ShareSettings = NOTHING_RESERVED
    ranking: RankingWeights = DEFAULT_WEIGHTS
    windows: WindowTable = msgspec.field(default_factory=WindowTable)
    clock: Callable[[], float] = time.time
    summaries: SummarySource | None = None  # None: no model is configured that could summarize
    queues_summaries: bool = True  # those that are missing are made in the background
    lookups: HitCounter = msgspec.field(default_factory=HitCounter)  # hits and misses of cached selections
    _running: dict[Hashable, asyncio.Task[Any]] = {}  # what several callers may wait for
    _counts: dict[str, TokenCount] = {}  # by the family of models, of which there are few

    def isolate(self, searcher: SemanticSearcher | None) -> "ContextBuilder":
        """The same builder with another searcher, sharing no cache: for snapshots that are not served."""
        collectors = replace_searcher(self.collectors, searcher)
        memory = MemoryBudget(ISOLATED_BYTES)
        isolated = replace(self, collectors=collectors, memory=memory, lookups=HitCounter(), _running={})
        return replace(isolated, queues_summaries=False)  # nobody is served what it builds

    async def build(self, order: ContextOrder) -> Injection:
        """The injection for a scope and a question."""
        partition = self.open_partition(order.snapshot, order.workspace)
        own = order.keys.get(order.tool_names) or self._make_key(order)
        key, budget = own, own.budget
        request = order.request
        if self.windows.may_be_exceeded(order.model, request, order.scope, budget):
            key = await self._fit_window(order, request, own)
        known: KnownScope | None = partition.get(key.parts)
        if known is None or known.tree_generation != order.snapshot.tree_generation:
            known = await self._learn_scope(order, partition, key)
        asked = order.scope.request
        if known.collectors.applied and asked.inject:
            injection = await self._collect(order, partition, known)
            if order.scope.session is not None and order.scope.selection.sticky and known.collectors.searches:
                injection = await self._keep_picks(order, known.context, injection)
                return injection if key is own else warn_of_window(injection, budget)
        else:
            injection = known.injection
        if asked.items and asked.inject and order.scope.takes_part:
            tag, count = self._tag(order.workspace), self.count_for(order.model)
            injection = await self._run(order.workspace, lambda: add_items(injection, asked.items, tag, count))
        return injection if key is own else warn_of_window(injection, budget)

    def recall(self, order: ContextOrder) -> KnownScope | None:
        """The scope with its injection, if it is known and depends on nothing else; None: build it."""
        exchange, scope, request = order.exchange, order.scope, order.request
        partition = exchange.snapshot.partitions.get(exchange.principal.workspace)
        key = order.keys.get(None if order.tools is None else order.tools.names)
        if partition is None or key is None or scope.request.items:
            return None
        if self.windows.may_be_exceeded(order.model, request, scope, key.budget):
            return None
        known: KnownScope | None = partition.get(key.parts)
        if known is None or known.tree_generation != exchange.snapshot.tree_generation or known.collectors.applied:
            return None
        return known

    async def _fit_window(self, order: ContextOrder, request: ChatRequest, own: ScopeKey) -> ScopeKey:
        """The scope's own key, or that of a smaller budget if the model's window has no room for its own."""
        window = self.windows.find(order.model)
        if window is None:
            return own
        count = self.count_for(order.model)
        scope = order.scope
        budget = await self._run(order.workspace, lambda: fit_window(request, scope, window, own.budget, count))
        return own if budget == own.budget else self._make_key_for(order, budget)

    def open_partition(self, snapshot: Snapshot, workspace: str) -> CachePartition:
        """What is kept for a workspace as long as its snapshot is used."""
        partition = snapshot.partitions.get(workspace)
        if partition is None:
            partition = snapshot.partitions[workspace] = self.memory.open(workspace)
        return partition

    def _make_key(self, order: ContextOrder) -> ScopeKey:
        budget = choose_budget(order.scope, self.default_budget)
        key = self._make_key_for(order, budget)
        if len(order.keys) < MAX_KEYS:
            order.keys[order.tool_names] = key
        return key

    def _make_key_for(self, order: ContextOrder, budget: int) -> ScopeKey:
        tokenizer = self.counter.family(order.model)
        return ScopeKey(budget, make_scope_key(order.scope, order.snapshot, order.tools, tokenizer, budget))

    async def _learn_scope(self, order: ContextOrder, partition: CachePartition, key: ScopeKey) -> KnownScope:
        scope, snapshot, tools = order.scope, order.snapshot, order.tools
        tokenizer, budget = self.counter.family(order.model), key.budget
        sources = resolve_assignments(scope, snapshot)
        effective = reduce_scope(scope, sources, snapshot)
        contexts = (*(one.alias for one in effective.contexts), *list_named_contexts(effective, snapshot))
        fetchable = tools is not None
        collectors = self.collectors.choose(order.workspace, scope, snapshot, contexts, fetchable=fetchable)
        shares = self.shares.resolve(scope)
        nodes = scope.takes_part and scope.request.inject and scope.node is not None and snapshot.has_texts
        terms = ContextTerms(tokenizer, tools, budget, effective, shares, collectors.categories, nodes)
        shared = await self._open_context(order, partition, terms)
        context: ScopeContext = shared.value
        instructions = escape_json(scope.agent.instructions) if scope.agent is not None else b""
        injection = personalize(context.injection, sources, instructions)
        collectors = collectors if context.searchable else collectors.drop_shared()
        collectors = collectors if context.retrievers is not NO_RETRIEVERS else collectors.drop(RETRIEVERS)
        known = KnownScope(shared, context, sources, instructions, injection, collectors, snapshot.tree_generation)
        partition.put(key.parts, known, weigh_scope(instructions, terms.scope.include, terms.scope.exclude), shared)
        return known

    async def _open_context(self, order: ContextOrder, partition: CachePartition, terms: ContextTerms) -> SharedValue:
        """What all scopes with these terms share."""
        key, workspace, snapshot = terms.key, order.workspace, order.snapshot
        shared = partition.get_shared(key)
        if shared is not None:
            return shared

        def make(cutter: Cutter) -> SharedValue:
            context = self._make_context(workspace, snapshot, terms, cutter)
            return SharedValue(key, context, weigh_context(context, snapshot))

        return await self._run_once((partition, key), lambda: self._run_cutting(workspace, make))

    def _make_context(self, workspace: str, snapshot: Snapshot, asked: ContextTerms, cutter: Cutter) -> ScopeContext:
        collected = collect_contexts(asked.scope, snapshot, self.merge)
        proposal = propose(collected.candidates, collected.dropped, (), collected.degraded)
        tag, count = self._tag(workspace), self.count_for(asked.tokenizer)
        tools = asked.tools or PLAIN_TOOLS
        pricing = make_pricing(tools, tag, count)
        terms = SelectionTerms(
            asked.budget, asked.tools is not None, pricing, asked.shares, asked.categories, asked.nodes
        )
        fills = fill_scope(proposal, terms, cutter)
        selection = select(proposal, terms, (), fills)
        stable = render_stable(selection, tools, tag, count)
        searchable = proposal.list_searchable(fetchable=asked.tools is not None)
        injection = render(selection, stable, searchable, tag, count)
        retrievers = proposal.list_retrievers(fetchable=asked.tools is not None)
        return ScopeContext(proposal, terms, searchable, fills, stable, injection, retrievers)

    async def _collect(self, order: ContextOrder, partition: CachePartition, known: KnownScope) -> Injection:
        """The injection with what collectors find for this request."""
        if len(order.request.raw) > PAUSE_BYTES:
            await asyncio.sleep(0)
        question = order.request.dialect.find_question(order.request.messages)
        query = split_question(question) if question is not None else NO_QUERY
        asked = Inquiry(question, query, make_query_key(known, query, order.scope))
        if not known.collectors.shared:
            with self.threads.answering(order.workspace):
                outcomes = await self._run_collectors(order, partition, known, asked)
                return known.personalize(await self._place(order, known.context, outcomes, asked))
        if question is None:
            return known.injection
        found: Injection | None = partition.get(asked.key)
        self.lookups.count(found is not None)
        if found is None:

            async def search() -> Injection:
                with self.threads.answering(order.workspace):
                    outcomes = await self._run_collectors(order, partition, known, asked)
                    injection = await self._place(order, known.context, outcomes, asked)
                if all(one.findings.complete for one in outcomes):
                    partition.put(asked.key, injection, weigh_question(injection), known.shared)
                return injection

            found = await self._run_once((partition, asked.key), search)
        return known.personalize(found)

    async def _run_collectors(
        self, order: ContextOrder, partition: CachePartition, known: KnownScope, asked: Inquiry
    ) -> tuple[CollectorOutcome, ...]:
        """What the collectors of a scope find; what is the same for everyone is looked up once."""
        everyone = known.collectors.shared

        def collect(applied: AppliedCollector) -> Coroutine[Any, Any, Findings]:
            asking = applied.collector.collect(self._make_order(order, known, asked, applied))
            if everyone or not applied.collector.shared:
                return asking
            return self._collect_shared(partition, known, (applied.collector.name, asked.key), asking)

        return await run_collectors(known.collectors.applied, collect, self.seconds)

    async def _collect_shared(
        self, partition: CachePartition, known: KnownScope, key: CacheKey, asking: Coroutine[Any, Any, Findings]
    ) -> Findings:
        """The findings that all who ask the same share, cached if they are complete."""
        kept: Findings | None = partition.get(key)
        self.lookups.count(kept is not None)
        if kept is not None:
            asking.close()
            return kept
        found = await asking
        if found.complete:
            partition.put(key, found, weigh_findings(found), known.shared)
        return found

    def _make_order(
        self, order: ContextOrder, known: KnownScope, asked: Inquiry, applied: AppliedCollector
    ) -> CollectorOrder:
        principal, scope = order.exchange.principal, order.scope
        return CollectorOrder(
            workspace=order.workspace,
            principal=principal,
            readers=principal.readers(scope.request.user),
            scope=scope,
            snapshot=order.snapshot,
            question=asked.question,
            query=asked.query,
            searchable=known.context.searchable,
            options=applied.options,
            room=known.context.fills.room,
            seconds=self.seconds,
            read_messages=partial(order.request.dialect.read_user_texts, order.request.messages),
            retrievers=known.context.retrievers,
        )

    async def _place(
        self, order: ContextOrder, context: ScopeContext, outcomes: tuple[CollectorOutcome, ...], asked: Inquiry
    ) -> Injection:
        """The injection with what collectors have found."""
        tag, count = self._tag(order.workspace), self.count_for(order.model)
        ranker = self._make_ranker(order, asked)

        def make(cutter: Cutter) -> Injection:
            selection = select(context.proposal, context.terms, outcomes, context.fills, ranker, cutter)
            return render(selection, context.stable, context.searchable, tag, count)

        # By the sentences that are searched for: whoever shares what is found shares how it is cut.
        return await self._run_cutting(order.workspace, make, " ".join(asked.query.sentences))

    def _make_ranker(self, order: ContextOrder, asked: Inquiry) -> Ranker:
        scope = order.scope
        weights = scope.agent.ranking if scope.agent is not None and scope.agent.ranking is not None else self.ranking
        return Ranker(weights, scope.request.hints, asked.question.text if asked.question else "", self.clock())

    async def _keep_picks(self, order: ContextOrder, context: ScopeContext, plain: Injection) -> Injection:
        """The injection with what earlier requests of the session have picked; nobody else gets it."""
        scope, tag, count = order.scope, self._tag(order.workspace), self.count_for(order.model)
        sticky = scope.session.sticky if scope.session is not None else ()
        # A template rewrites the user's text: the message that a block was placed with does not come again.
        apart = order.placement is not Placement.SYSTEM and (scope.prompt is None or scope.prompt.template is None)

        request = order.request

        def make() -> Injection:
            digests = digest_texts(request.dialect.read_user_texts(request.messages), self.secret)
            kept = keep_picks(plain.selection, sticky, digests, context.fills.room, context.terms.pricing, apart=apart)
            return render_sticky(plain, kept, scope.request.items, apart, tag, count)

        return await self._run(order.workspace, make)

    async def _run(self, workspace: str, work: Callable[[], Result]) -> Result:
        """Some work of a workspace, off the event loop: counting tokens takes time."""
        return await self.threads.run(workspace, work)

    async def _run_cutting(self, workspace: str, work: Callable[[Cutter], Result], question: str = "") -> Result:
        """Some work that cuts texts, repeated if the store has summaries that it turns out to need."""
        source, loaded = self.summaries, dict[SummaryOrder, str]()
        while True:
            cutter = Cutter(question, source.open(workspace) if source is not None else None, loaded)
            result = await self._run(workspace, partial(work, cutter))
            if source is None or not cutter.missing:
                return result
            found = await source.load(workspace, cutter.missing, queue=self.queues_summaries)
            if loaded.keys() >= found.keys():
                return result
            loaded |= found

    async def _run_once(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The outcome of some work, which callers who need it at the same time share; it ends even if they leave."""
        running: asyncio.Task[Result] | None = self._running.get(key)
        if running is None:
            running = self._running[key] = asyncio.create_task(work())
            running.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(running)

    def _forget(self, key: Hashable, done: asyncio.Task[Any]) -> None:
        """Nobody else joins; its error reaches everyone who waits, and nobody else misses it."""
        del self._running[key]
        if not done.cancelled():
            done.exception()

    def _tag(self, workspace: str) -> str:
        return compute_block_tag(self.secret, workspace)

    def count_for(self, model: str) -> TokenCount:
        """Counts for a model's family, the same object every time: what short texts come to is remembered with it."""
        counter, family = self.counter, self.counter.family(model)
        return self._counts.setdefault(family, lambda text: counter.count(text, family))
