"""The semantic collector: what a search finds relevant to the question among the resources of a scope."""

from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from gateway.collectors.registry import SEMANTIC, CollectorParts, CollectorRegistry, NoOptions
from gateway.domain.collector import Category, CollectorOrder, CollectorScope, Findings
from gateway.domain.resource import Mode
from gateway.domain.scope import Scope
from gateway.domain.search import SearchResult
from gateway.semantic.searcher import SemanticSearcher

NOT_SEARCHED = Findings(search=SearchResult(reason="not_searched"))


class SemanticCollector(msgspec.Struct, frozen=True):
    """Searches on behalf of one workspace at a time; it never raises and keeps its own deadline."""

    name: ClassVar = SEMANTIC
    category: ClassVar = Category.SEMANTIC
    priority: ClassVar = 20
    degraded: ClassVar = "semantic"
    shared: ClassVar = True
    options: ClassVar = NoOptions  # `selection` tunes it, per request and agent

    searcher: SemanticSearcher

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        """None without semantic search: semantic resources are only offered through the tools."""
        return cls(parts.searcher) if parts.searcher is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return Mode.SEMANTIC in scope.modes

    async def collect(self, order: CollectorOrder) -> Findings:
        """The resources among the searchable ones that are relevant to the question."""
        if order.question is None or order.scope.selection.enabled is False:
            return NOT_SEARCHED
        found = await self.searcher.find(order.workspace, order.query, order.searchable, order.scope.selection)
        complete = found.reason is None and not found.pending
        return Findings(considered=len(order.searchable), search=found, complete=complete)


def replace_searcher(registry: CollectorRegistry, searcher: SemanticSearcher | None) -> CollectorRegistry:
    """The same collectors with another searcher; without one, nothing is searched."""
    others = (one for one in registry.collectors if searcher is not None or not isinstance(one, SemanticCollector))
    return replace(
        registry,
        collectors=tuple(
            SemanticCollector(searcher) if searcher is not None and isinstance(one, SemanticCollector) else one
            for one in others
        ),
    )


def find_searcher(registry: CollectorRegistry, workspace: str, scope: Scope) -> SemanticSearcher | None:
    """What searches the resources of a scope; None if nothing does."""
    if registry.resolve(SEMANTIC, workspace, scope).enabled is False:
        return None
    return next((one.searcher for one in registry.collectors if isinstance(one, SemanticCollector)), None)
