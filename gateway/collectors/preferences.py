"""The preferences collector: what a user would like answers to be like."""

from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import Field

from gateway.collectors.nodes import ProposedNode, make_items
from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings
from gateway.domain.content import ContentReader


class PreferenceOptions(NoOptions):
    """Where preferences are kept."""

    root: str = Field("preferences", min_length=1, description="The path of the node that holds them.")


@dataclass(frozen=True, slots=True)
class PreferenceCollector:
    """Reads the node with the id `<root>:<user>`; where there is no node `<root>`, nobody has preferences."""

    name: ClassVar = "preferences"
    category: ClassVar = Category.FOCUS
    priority: ClassVar = 15
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = PreferenceOptions

    content: ContentReader

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls(parts.content) if parts.content is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return scope.options.root in scope.snapshot.tree.nodes

    async def collect(self, order: CollectorOrder) -> Findings:
        node = order.snapshot.tree.get(f"{order.options.root}:{order.user}")
        if node is None:
            return NO_FINDINGS
        proposed = ProposedNode(node, 0.95, f"what {order.user} prefers", affinity=1.0)
        items = await make_items(order, self.content, [proposed])
        return Findings(tuple(items), considered=len(items))
