"""What is kept of scopes: the part that many share, the part of each, their keys, and what they weigh."""

import hashlib
import sys
from collections.abc import Hashable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.collectors.effective import (
    NO_ITEMS,
    NOTHING,
    find_excluded,
    find_included,
    find_session_items,
    match_languages,
)
from gateway.collectors.registry import NO_COLLECTORS, ScopeCollectors
from gateway.domain.agent import ToolPermission
from gateway.domain.candidate import Assignment
from gateway.domain.collector import Category, Findings
from gateway.domain.effective_scope import EffectiveScope
from gateway.domain.hints import NO_HINTS
from gateway.domain.injection import Injection, OwnTools
from gateway.domain.memory_budget import SharedValue
from gateway.domain.retriever import NO_RETRIEVERS, ScopeRetrievers
from gateway.domain.scope import REQUEST_TYPES, Scope
from gateway.domain.search import Query
from gateway.domain.selection import Notice, Selection
from gateway.domain.snapshot import Snapshot
from gateway.injection.blocks import StableBlock
from gateway.selection.allotment import NO_SHARES, BudgetShares
from gateway.selection.select import Proposal, ScopeFills, SelectionTerms

CacheKey = tuple[Hashable, ...]


class ScopeKey(NamedTuple):
    """What a scope is known by, and the budget that is part of it."""

    budget: int
    parts: CacheKey


ScopeKeys = dict[frozenset[str] | None, ScopeKey]  # by the names of our tools

# Bytes of one object with what only it holds, on 64-bit CPython; tests compare them with what is really allocated.
CANDIDATE_BYTES = 140  # with its places in tuples
OMISSION_BYTES = 60
PLACED_BYTES = 220  # with its price
CONTEXT_BYTES = 3_800  # of a context without candidates: the objects themselves, and their key
REPORT_BYTES = 170  # of what is told about a collector
SCOPE_BYTES = 1_150  # of a scope besides what it shares: its key, sources, selection and injection


class ScopeContext(msgspec.Struct, frozen=True, eq=False):
    """What does not depend on the question, for all scopes that come down to the same."""

    proposal: Proposal
    terms: SelectionTerms
    searchable: tuple[str, ...]
    fills: ScopeFills
    stable: StableBlock
    injection: Injection  # of a request without a search
    retrievers: ScopeRetrievers = NO_RETRIEVERS


class KnownScope(msgspec.Struct, frozen=True):
    """One scope: what it shares with others, and its own names for it."""

    shared: SharedValue  # holds the ScopeContext
    context: ScopeContext
    sources: tuple[Assignment, ...]
    instructions: bytes  # as the inside of a JSON string
    injection: Injection  # of a request without a search
    collectors: ScopeCollectors = NO_COLLECTORS  # that have something to do for it
    tree_generation: int = 0  # of the snapshot: with another tree, other contexts or collectors may apply

    def personalize(self, injection: Injection) -> Injection:
        """An injection that many share, with this scope's sources and instructions."""
        return personalize(injection, self.sources, self.instructions)

    def weigh(self) -> int:
        """The bytes of its injection besides what it shares."""
        return weigh_scope(self.instructions, (), frozenset())


def personalize(injection: Injection, sources: tuple[Assignment, ...], instructions: bytes) -> Injection:
    selection = replace(injection.selection, sources=sources)
    return replace(injection, selection=selection, texts=replace(injection.texts, instructions=instructions))


def warn_of_window(injection: Injection, wanted: int) -> Injection:
    """The injection with a warning that the model's window left less than its budget."""
    selection = injection.selection
    message = f"The model's window has room for {selection.budget} tokens of a budget of {wanted}."
    notice = Notice("window", "total", message)
    return replace(injection, selection=replace(selection, warnings=(*selection.warnings, notice)))


def make_scope_key(scope: Scope, snapshot: Snapshot, tools: OwnTools | None, tokenizer: str, budget: int) -> CacheKey:
    """The key of a scope in its workspace and snapshot: known ids and numbers, never what a client wrote.

    `tools` is None if they cannot be registered. Raises UnknownAlias for a resource that the caller cannot name.
    """
    asked = scope.request
    return (
        tokenizer,
        tools and tools.get,
        tools and tools.list,
        scope.agent and scope.agent.alias,
        scope.profile and scope.profile.alias,
        scope.prompt and scope.prompt.alias,
        scope.node and scope.node.path,
        scope.readers,
        scope.bound,
        scope.contexts,
        asked.inject,
        asked.type if asked.type is None or asked.type in REQUEST_TYPES else None,
        budget,
        match_languages(snapshot.languages, asked.language) if asked.language is not None else None,
        find_included(scope, snapshot) if asked.include else (),
        find_excluded(scope, snapshot) if asked.exclude or scope.session is not None else NOTHING,
        find_session_items(scope, snapshot) if scope.session is not None else NO_ITEMS,
        (scope.tool_permission is ToolPermission.DENY, scope.tools) if snapshot.tools else None,
        asked.hints is NO_HINTS,
        scope.recipe and scope.recipe.alias,
    )


def make_query_key(known: KnownScope, query: Query, scope: Scope) -> CacheKey:
    """By what is searched for, not by the whole conversation: a question that stands alone is the same in each.

    A hash stands for the sentences: keys live as long as their snapshot, and texts of clients are not kept.
    """
    searched = hashlib.blake2b(repr(query.sentences).encode(), digest_size=16).digest()
    return (known.context, searched, scope.selection, known.collectors.key)


def weigh_context(context: ScopeContext, snapshot: Snapshot) -> int:
    """The bytes that a context takes besides what the snapshot holds anyway."""
    proposal = context.proposal
    made = (one.resource for one in proposal.candidates if snapshot.resources.get(one.resource.id) is not one.resource)
    return (
        CONTEXT_BYTES
        + CANDIDATE_BYTES * len(proposal.candidates)
        + (CANDIDATE_BYTES + OMISSION_BYTES) * len(proposal.dropped)
        + sum(CANDIDATE_BYTES + sys.getsizeof(resource.text) for resource in made)
        + weigh_selection(context.injection.selection)
        + weigh_blocks(context.injection)
    )


def weigh_scope(instructions: bytes, include: tuple[str, ...], exclude: frozenset[str]) -> int:
    return SCOPE_BYTES + sys.getsizeof(instructions) + 8 * len(include) + 32 * len(exclude)


def weigh_question(injection: Injection) -> int:
    """The bytes that the injection for a question takes besides its scope's context."""
    texts = sys.getsizeof(injection.volatile) + sys.getsizeof(injection.texts.volatile)
    return SCOPE_BYTES + weigh_selection(injection.selection) + texts


def weigh_findings(found: Findings) -> int:
    """The bytes that kept findings take: those of a search among resources, which many share."""
    search = found.search
    marks = () if search is None else (*search.picks, *search.scores, *search.pending)
    return SCOPE_BYTES + PLACED_BYTES * len(marks) + sum(sys.getsizeof(one.text) for one in found.items)


def weigh_selection(selection: Selection) -> int:
    placed = (*selection.stable, *selection.volatile)
    cut = sum(sys.getsizeof(one.text) for one in placed if one.truncated)
    left = (*selection.catalogue, *selection.dropped)
    scored = sum(one.candidate.score is not None for one in left)
    told = REPORT_BYTES * len(selection.collectors)
    return PLACED_BYTES * len(placed) + cut + OMISSION_BYTES * len(left) + CANDIDATE_BYTES * scored + told


def weigh_blocks(injection: Injection) -> int:
    texts = injection.texts
    return sum(map(sys.getsizeof, (injection.stable, injection.volatile, texts.stable, texts.volatile)))


class ContextTerms(msgspec.Struct, frozen=True):
    """All that a ScopeContext is made of: known ids, so that no caller's words can enter what others get."""

    tokenizer: str
    tools: OwnTools | None
    budget: int
    scope: EffectiveScope
    shares: BudgetShares = NO_SHARES
    categories: frozenset[Category] = frozenset()  # that collectors may need
    nodes: bool = False  # the tools reach nodes, too

    @property
    def key(self) -> CacheKey:
        names = self.tools and self.tools.names
        return (self.tokenizer, names, self.budget, self.scope, self.shares, self.categories, self.nodes)
