"""Scope → contexts → candidates → search → selection → injection; once per snapshot, scope and question."""

import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from msgspec import Raw

from gateway.collectors.contexts import Merge, collect_contexts
from gateway.collectors.semantic import SemanticCollector
from gateway.domain.agent import SelectionSettings
from gateway.domain.exchange import Exchange
from gateway.domain.injection import Injection, OwnTools
from gateway.domain.lru import HitCounter
from gateway.domain.scope import Scope
from gateway.domain.search import Query, SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.fair_queue import FairThreads
from gateway.injection.blocks import StableBlock, add_items, compute_block_tag, entry_cost, render, render_stable
from gateway.injection.tools import PLAIN_TOOLS
from gateway.scopes.chat_body import find_question
from gateway.scopes.scope import resolve_assignments
from gateway.selection.select import (
    Pricing,
    Proposal,
    ScopeFills,
    SelectionTerms,
    choose_budget,
    fill_scope,
    propose,
    select,
)
from gateway.semantic.search.sentences import split_question
from gateway.tokens import TokenCounter

CacheKey = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class ContextOrder:
    """What an injection is built for."""

    exchange: Exchange
    scope: Scope
    model: str
    tools: OwnTools | None  # None: ours cannot be registered
    messages: Sequence[Raw]

    @property
    def snapshot(self) -> Snapshot:
        return self.exchange.snapshot

    @property
    def workspace(self) -> str:
        return self.exchange.principal.workspace


@dataclass(slots=True)
class ScopeContext:
    """What does not depend on the question: a scope's proposal, terms and, once rendered, stable block."""

    key: CacheKey
    proposal: Proposal
    terms: SelectionTerms
    searchable: tuple[str, ...]
    fills: ScopeFills | None = None
    stable: StableBlock | None = None
    injection: Injection | None = None  # of a request without a search


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """Builds injections off the event loop and caches them in their snapshot."""

    counter: TokenCounter
    merge: Merge
    secret: bytes
    default_budget: int
    semantic: SemanticCollector | None = None  # None: semantic resources are only offered through the tools
    threads: FairThreads = field(default_factory=lambda: FairThreads("builder"))
    lookups: HitCounter = field(default_factory=HitCounter)  # hits and misses of cached selections

    async def build(self, order: ContextOrder) -> Injection:
        """The injection for a scope and a question."""
        context = await self._open_scope(order)
        if self.semantic is not None and context.searchable and order.scope.request.inject:
            injection = await self._search(order, context, self.semantic)
        else:
            injection = await self._inject(order, context)
        asked = order.scope.request
        if asked.items and asked.inject and order.scope.takes_part:
            tag, count = self._tag(order), self._counting(order)
            injection = await self.threads.run(order.workspace, add_items, injection, asked.items, tag, count)
        return injection

    async def _open_scope(self, order: ContextOrder) -> ScopeContext:
        key = make_scope_key(order.workspace, order.scope, order.tools, self.counter.family(order.model))
        context: ScopeContext | None = order.snapshot.memo.get(key)
        if context is None:
            context = await self.threads.run(order.workspace, self._collect, order, key)
            order.snapshot.memo.put(key, context, 1 + len(context.proposal.candidates) + len(context.proposal.dropped))
        return context

    def _collect(self, order: ContextOrder, key: CacheKey) -> ScopeContext:
        scope, snapshot = order.scope, order.snapshot
        assignments = resolve_assignments(scope, snapshot)
        collected = collect_contexts(scope, assignments, snapshot, self.merge)
        degraded = frozenset({"links"} if collected.missing else ())
        proposal = propose(collected.candidates, collected.dropped, assignments, degraded)
        pricing = Pricing(entry_cost(self._counting(order)))
        terms = SelectionTerms(choose_budget(scope, self.default_budget), order.tools is not None, pricing)
        return ScopeContext(key, proposal, terms, proposal.searchable)

    async def _search(self, order: ContextOrder, context: ScopeContext, semantic: SemanticCollector) -> Injection:
        """The injection with what is relevant to the question."""
        question = find_question(order.messages)
        if question is None:
            return await self._inject(order, context)
        query = split_question(question)
        key = make_query_key(context.key, query, order.scope.selection)
        known: Injection | None = order.snapshot.memo.get(key)
        self.lookups.count(known is not None)
        if known is not None:
            return known
        found = await semantic.collect(order.workspace, order.scope, query, context.searchable)
        injection = await self.threads.run(order.workspace, self._render, order, context, found)
        if found.reason is None and not found.pending:
            selection = injection.selection
            order.snapshot.memo.put(key, injection, 1 + len(selection.catalogue) + len(selection.dropped))
        return injection

    async def _inject(self, order: ContextOrder, context: ScopeContext) -> Injection:
        """The injection without a search."""
        if context.injection is None:
            context.injection = await self.threads.run(order.workspace, self._render, order, context, None)
        return context.injection

    def _render(self, order: ContextOrder, context: ScopeContext, found: SearchResult | None) -> Injection:
        if context.fills is None:
            context.fills = fill_scope(context.proposal, context.terms)
        selection = select(context.proposal, context.terms, found, context.fills)
        tag, count = self._tag(order), self._counting(order)
        if context.stable is None:
            instructions = order.scope.agent.instructions if order.scope.agent is not None else ""
            context.stable = render_stable(selection, order.tools or PLAIN_TOOLS, instructions, tag, count)
        return render(selection, context.stable, context.searchable, tag, count)

    def _tag(self, order: ContextOrder) -> str:
        return compute_block_tag(self.secret, order.workspace)

    def _counting(self, order: ContextOrder) -> Callable[[str], int]:
        counter, model = self.counter, order.model
        return lambda text: counter.count(text, model)


def make_scope_key(workspace: str, scope: Scope, tools: OwnTools | None, tokenizer: str) -> CacheKey:
    """The key of what does not depend on the question; `tools` is None if they cannot be registered."""
    asked = scope.request
    return (
        workspace,
        tokenizer,
        tools and (tools.get, tools.list),
        scope.agent and scope.agent.alias,
        scope.profile and scope.profile.alias,
        scope.prompt and scope.prompt.alias,
        scope.node and scope.node.path,
        scope.readers,
        scope.bound,
        scope.contexts,
        asked.language,
        asked.inject,
        asked.budget,
        asked.include,
        asked.exclude,
    )


def make_query_key(scope_key: CacheKey, query: Query, settings: SelectionSettings) -> CacheKey:
    """By what is searched for, not by the whole conversation: a question that stands alone is the same in each.

    A hash stands for the sentences: keys live as long as their snapshot, and texts of clients are not kept.
    """
    searched = hashlib.blake2b(repr(query.sentences).encode(), digest_size=16).digest()
    return (*scope_key, searched, settings)
