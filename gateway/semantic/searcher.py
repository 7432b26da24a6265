"""What other rooms use of semantic search."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from gateway.domain.agent import SelectionSettings
from gateway.domain.search import Query, SearchResult


class SemanticSearcher(Protocol):
    """Finds relevant resources and passages; it never raises and never takes longer than it may."""

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        """What of `resources` is worth injecting for a query."""
        ...

    async def rank(self, workspace: str, text: str, resources: Sequence[str]) -> list[str] | None:
        """The ids among `resources` that may answer a tool's query, best first; None if it cannot tell now."""
        ...

    async def find_passages(self, workspace: str, text: str, resource: str) -> list[str]:
        """The passages of a resource that answer a tool's query, best first; [] if it cannot tell now."""
        ...

    async def score_texts(self, workspace: str, query: Query, texts: Sequence[str]) -> list[float] | None:
        """How near each of some texts is to a query; None if it cannot tell now."""
        ...


class WorkspaceSearcher(msgspec.Struct, frozen=True):
    """A searcher as one workspace's tools use it."""

    searcher: SemanticSearcher
    workspace: str

    async def rank(self, query: str, resources: Sequence[str]) -> list[str] | None:
        return await self.searcher.rank(self.workspace, query, resources)

    async def find_passages(self, query: str, resource: str) -> list[str]:
        return await self.searcher.find_passages(self.workspace, query, resource)
