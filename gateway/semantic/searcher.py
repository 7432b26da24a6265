"""What the rest of the house asks of a search by meaning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.domain.agent import SelectionSettings
from gateway.domain.search import Question, SearchResult


class SemanticSearcher(Protocol):
    """Finds resources and passages by meaning; it never raises and never takes longer than it may."""

    async def find(
        self, workspace: str, question: Question, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        """What of `resources` is worth injecting for a question."""
        ...

    async def rank(self, workspace: str, query: str, resources: Sequence[str]) -> list[str] | None:
        """The ids among `resources` that may answer a query, best first; None if it cannot tell now."""
        ...

    async def passages(self, workspace: str, query: str, resource: str) -> list[str]:
        """The passages of a resource that answer a query, best first; [] if it cannot tell now."""
        ...


@dataclass(frozen=True, slots=True)
class WorkspaceSearcher:
    """An engine as one workspace's tools use it."""

    engine: SemanticSearcher
    workspace: str

    async def rank(self, query: str, resources: Sequence[str]) -> list[str] | None:
        return await self.engine.rank(self.workspace, query, resources)

    async def passages(self, query: str, resource: str) -> list[str]:
        return await self.engine.passages(self.workspace, query, resource)
