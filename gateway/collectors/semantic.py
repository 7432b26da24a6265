"""The semantic collector: what a search finds relevant to the question among the resources of a scope."""

from dataclasses import dataclass
from typing import ClassVar, Self

from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings
from gateway.domain.resource import Mode
from gateway.semantic.searcher import SemanticSearcher


@dataclass(frozen=True, slots=True)
class SemanticCollector:
    """Searches on behalf of one workspace at a time; it never raises and keeps its own deadline."""

    name: ClassVar = "semantic"
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
        if order.question is None:
            return NO_FINDINGS
        found = await self.searcher.find(order.workspace, order.query, order.searchable, order.scope.selection)
        complete = found.reason is None and not found.pending
        return Findings(considered=len(order.searchable), search=found, complete=complete)
