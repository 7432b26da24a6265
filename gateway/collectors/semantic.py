"""The semantic collector: what a search finds relevant to the question among the resources of a scope."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.domain.scope import Scope
from gateway.domain.search import Query, SearchResult
from gateway.semantic.searcher import SemanticSearcher


@dataclass(frozen=True, slots=True)
class SemanticCollector:
    """Searches on behalf of one workspace at a time; it never raises and keeps its deadline."""

    searcher: SemanticSearcher

    async def collect(self, workspace: str, scope: Scope, query: Query, searchable: Sequence[str]) -> SearchResult:
        """The resources among `searchable` that are relevant to the question."""
        return await self.searcher.find(workspace, query, searchable, scope.selection)
