"""The included collector: nodes that a request names in its hints."""

from typing import ClassVar, Self

import msgspec

from gateway.collectors.nodes import ProposedNode, is_about_content, make_items
from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings
from gateway.domain.content import ContentReader


class IncludedCollector(msgspec.Struct, frozen=True):
    """Brings what `hints.include` names, as far as the caller may read it; what it may not read does not exist."""

    name: ClassVar = "included"
    category: ClassVar = Category.FOCUS
    priority: ClassVar = 12
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = NoOptions

    content: ContentReader

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls(parts.content) if parts.content is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return is_about_content(scope, self.name)

    async def collect(self, order: CollectorOrder) -> Findings:
        named = sorted(order.scope.request.hints.include)
        if not named:
            return NO_FINDINGS
        nodes = (order.snapshot.tree.find(name) for name in named)
        proposed = [ProposedNode(node, 0.95, "named by the request") for node in nodes if node is not None]
        items, unread = await make_items(order, self.content, proposed)
        return Findings(items, considered=len(items), unread=unread)
