"""Scope → contexts → candidates → search → selection → injection; each made once and shared by all who get the same."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from msgspec import Raw

from gateway.builder.scope_context import (
    CacheKey,
    KnownScope,
    ScopeContext,
    make_scope_key,
    personalize,
    weigh_context,
    weigh_question,
    weigh_scope,
)
from gateway.collectors.contexts import Merge, collect_contexts
from gateway.collectors.effective import reduce_scope
from gateway.collectors.semantic import SemanticCollector
from gateway.domain.agent import Placement, SelectionSettings
from gateway.domain.effective_scope import EffectiveScope
from gateway.domain.exchange import Exchange
from gateway.domain.injection import Injection, OwnTools
from gateway.domain.lru import HitCounter
from gateway.domain.memory_budget import CachePartition, MemoryBudget, SharedValue
from gateway.domain.scope import Scope
from gateway.domain.search import Query, SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.fair_queue import FairThreads
from gateway.injection.anchors import render_sticky
from gateway.injection.blocks import add_items, compute_block_tag, entry_cost, render, render_stable
from gateway.injection.place import escape_json
from gateway.injection.tools import PLAIN_TOOLS
from gateway.scopes.chat_body import find_question, read_user_texts
from gateway.scopes.scope import resolve_assignments
from gateway.selection.select import Pricing, SelectionTerms, choose_budget, fill_scope, propose, select
from gateway.selection.sticky import digest_texts, keep_picks
from gateway.semantic.search.sentences import split_question
from gateway.semantic.searcher import SemanticSearcher
from gateway.tokens import TokenCounter

ISOLATED_BYTES = 16 * 2**20  # that a builder for one preview may cache

Result = TypeVar("Result")
ScopeKeys = dict[frozenset[str] | None, CacheKey]  # by the names of our tools
MAX_KEYS = 4  # of a scope: a client may give its own tools any names


@dataclass(slots=True)
class ContextOrder:
    """What an injection is built for."""

    exchange: Exchange
    scope: Scope
    model: str
    tools: OwnTools | None  # None: ours cannot be registered
    messages: Sequence[Raw]
    placement: Placement = Placement.SYSTEM
    keys: ScopeKeys = field(default_factory=dict)  # of the scope, made before for a request of the same one

    @property
    def snapshot(self) -> Snapshot:
        return self.exchange.snapshot

    @property
    def workspace(self) -> str:
        return self.exchange.principal.workspace

    @property
    def tool_names(self) -> frozenset[str] | None:
        return None if self.tools is None else self.tools.names


@dataclass(frozen=True, slots=True)
class ContextTerms:
    """All that a ScopeContext is made of: known ids, so that no caller's words can enter what others get."""

    tokenizer: str
    tools: OwnTools | None
    budget: int
    scope: EffectiveScope

    @property
    def key(self) -> CacheKey:
        return (self.tokenizer, self.tools and self.tools.names, self.budget, self.scope)


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """Builds injections off the event loop and caches them as long as their snapshot is used."""

    counter: TokenCounter
    merge: Merge
    secret: bytes
    default_budget: int
    semantic: SemanticCollector | None = None  # None: semantic resources are only offered through the tools
    memory: MemoryBudget = field(default_factory=MemoryBudget)
    threads: FairThreads = field(default_factory=lambda: FairThreads("builder"))
    lookups: HitCounter = field(default_factory=HitCounter)  # hits and misses of cached selections
    _running: dict[Hashable, asyncio.Task[Any]] = field(default_factory=dict)  # what several callers may wait for

    def isolate(self, searcher: SemanticSearcher | None) -> "ContextBuilder":
        """The same builder with another searcher, sharing no cache: for snapshots that are not served."""
        semantic = SemanticCollector(searcher) if searcher is not None and self.semantic is not None else None
        return replace(self, semantic=semantic, memory=MemoryBudget(ISOLATED_BYTES), lookups=HitCounter(), _running={})

    async def build(self, order: ContextOrder) -> Injection:
        """The injection for a scope and a question."""
        partition = self.open_partition(order.snapshot, order.workspace)
        key = order.keys.get(order.tool_names) or self._make_key(order)
        known: KnownScope = partition.get(key) or await self._learn_scope(order, partition, key)
        asked = order.scope.request
        if self.semantic is not None and known.context.searchable and asked.inject:
            injection = await self._search(order, partition, known, self.semantic)
            if order.scope.session is not None and order.scope.selection.sticky:
                return await self._keep_picks(order, known.context, injection)
        else:
            injection = known.injection
        if asked.items and asked.inject and order.scope.takes_part:
            tag, count = self._tag(order.workspace), self._counting(self.counter.family(order.model))
            injection = await self._run(order.workspace, lambda: add_items(injection, asked.items, tag, count))
        return injection

    def open_partition(self, snapshot: Snapshot, workspace: str) -> CachePartition:
        """What is kept for a workspace as long as its snapshot is used."""
        partition = snapshot.partitions.get(workspace)
        if partition is None:
            partition = snapshot.partitions[workspace] = self.memory.open(workspace)
        return partition

    def _make_key(self, order: ContextOrder) -> CacheKey:
        scope, tools = order.scope, order.tools
        tokenizer, budget = self.counter.family(order.model), choose_budget(scope, self.default_budget)
        key = make_scope_key(scope, order.snapshot, tools, tokenizer, budget)
        if len(order.keys) < MAX_KEYS:
            order.keys[order.tool_names] = key
        return key

    async def _learn_scope(self, order: ContextOrder, partition: CachePartition, key: CacheKey) -> KnownScope:
        scope, snapshot, tools = order.scope, order.snapshot, order.tools
        tokenizer, budget = self.counter.family(order.model), choose_budget(scope, self.default_budget)
        sources = resolve_assignments(scope, snapshot)
        terms = ContextTerms(tokenizer, tools, budget, reduce_scope(scope, sources, snapshot))
        shared = await self._open_context(order, partition, terms)
        context: ScopeContext = shared.value
        instructions = escape_json(scope.agent.instructions) if scope.agent is not None else b""
        injection = personalize(context.injection, sources, instructions)
        known = KnownScope(shared, context, sources, instructions, injection)
        partition.put(key, known, weigh_scope(instructions, terms.scope.include, terms.scope.exclude), shared)
        return known

    async def _open_context(self, order: ContextOrder, partition: CachePartition, terms: ContextTerms) -> SharedValue:
        """What all scopes with these terms share."""
        key, workspace, snapshot = terms.key, order.workspace, order.snapshot
        shared = partition.get_shared(key)
        if shared is not None:
            return shared

        def make() -> SharedValue:
            context = self._make_context(workspace, snapshot, terms)
            return SharedValue(key, context, weigh_context(context, snapshot))

        return await self._run_once((partition, key), lambda: self._run(workspace, make))

    def _make_context(self, workspace: str, snapshot: Snapshot, asked: ContextTerms) -> ScopeContext:
        collected = collect_contexts(asked.scope, snapshot, self.merge)
        proposal = propose(collected.candidates, collected.dropped, (), collected.degraded)
        tag, count = self._tag(workspace), self._counting(asked.tokenizer)
        terms = SelectionTerms(asked.budget, asked.tools is not None, Pricing(entry_cost(count), definition_cost=count))
        fills = fill_scope(proposal, terms)
        selection = select(proposal, terms, None, fills)
        stable = render_stable(selection, asked.tools or PLAIN_TOOLS, tag, count)
        searchable = proposal.searchable
        injection = render(selection, stable, searchable, tag, count)
        return ScopeContext(proposal, terms, searchable, fills, stable, injection)

    async def _search(
        self, order: ContextOrder, partition: CachePartition, known: KnownScope, semantic: SemanticCollector
    ) -> Injection:
        """The injection with what is relevant to the question."""
        question, settings = find_question(order.messages), order.scope.selection
        if question is None or settings.enabled is False:
            return known.injection
        query = split_question(question)
        key = make_query_key(known.context, query, settings)
        found: Injection | None = partition.get(key)
        self.lookups.count(found is not None)
        if found is None:

            async def search() -> Injection:
                result = await semantic.collect(order.workspace, order.scope, query, known.context.searchable)
                return await self._place(order, partition, known.shared, key, result)

            found = await self._run_once((partition, key), search)
        return known.personalize(found)

    async def _place(
        self, order: ContextOrder, partition: CachePartition, shared: SharedValue, key: CacheKey, found: SearchResult
    ) -> Injection:
        """The injection with what a search has found, cached if the search was complete."""
        context: ScopeContext = shared.value
        tag, count = self._tag(order.workspace), self._counting(self.counter.family(order.model))

        def make() -> Injection:
            selection = select(context.proposal, context.terms, found, context.fills)
            return render(selection, context.stable, context.searchable, tag, count)

        injection = await self._run(order.workspace, make)
        if found.reason is None and not found.pending:
            partition.put(key, injection, weigh_question(injection), shared)
        return injection

    async def _keep_picks(self, order: ContextOrder, context: ScopeContext, plain: Injection) -> Injection:
        """The injection with what earlier requests of the session have picked; nobody else gets it."""
        scope, tag, count = order.scope, self._tag(order.workspace), self._counting(self.counter.family(order.model))
        sticky = scope.session.sticky if scope.session is not None else ()
        # A template rewrites the user's text: the message that a block was placed with does not come again.
        apart = order.placement is not Placement.SYSTEM and (scope.prompt is None or scope.prompt.template is None)

        def make() -> Injection:
            digests = digest_texts(read_user_texts(order.messages), self.secret)
            kept = keep_picks(plain.selection, sticky, digests, context.fills.room, context.terms.pricing)
            return render_sticky(plain, kept, scope.request.items, apart, tag, count)

        return await self._run(order.workspace, make)

    async def _run(self, workspace: str, work: Callable[[], Result]) -> Result:
        """Some work of a workspace, off the event loop: counting tokens takes time."""
        return await self.threads.run(workspace, work)

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

    def _counting(self, tokenizer: str) -> Callable[[str], int]:
        """Counts for one family of models; a client's own name for its model may be long, and this is kept."""
        counter = self.counter
        return lambda text: counter.count(text, tokenizer)


def make_query_key(context: ScopeContext, query: Query, settings: SelectionSettings) -> CacheKey:
    """By what is searched for, not by the whole conversation: a question that stands alone is the same in each.

    A hash stands for the sentences: keys live as long as their snapshot, and texts of clients are not kept.
    """
    searched = hashlib.blake2b(repr(query.sentences).encode(), digest_size=16).digest()
    return (context, searched, settings)
