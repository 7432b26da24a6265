"""The relations collector: what a node refers to, and what refers to it."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

import msgspec
from pydantic import Field

from gateway.collectors.focus import list_children
from gateway.collectors.nodes import ProposedNode, is_about_content, make_items
from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings
from gateway.domain.content import LINK, NO_CONTENT, ContentReader, NodeContent
from gateway.domain.node import Node

REFERENCE, PLAIN, BACK = 0.75, 0.7, 0.65  # typed references and rows, links, links from elsewhere
STEP = 0.1  # that each further step takes
MOST_LINKS = 100  # of one node that are followed
ROWS = "database"  # the type of a node whose children are rows


class RelationOptions(NoOptions):
    """How far links are followed."""

    max_depth: int = Field(2, ge=1, le=5, description="Links in a row that are followed.")
    max_items: int = Field(10, ge=0, le=100, description="Nodes in all.")
    backlinks: bool = Field(True, description="Look for what links to the node too.")
    excerpt: int = Field(600, ge=100, le=100_000, description="Characters of each node.")


class RelationCollector(msgspec.Struct, frozen=True):
    """Typed references, rows, links and backlinks of the node that a request is about."""

    name: ClassVar = "relations"
    category: ClassVar = Category.RELATIONS
    priority: ClassVar = 30
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = RelationOptions

    content: ContentReader

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls(parts.content) if parts.content is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return scope.scope.node is not None and is_about_content(scope, self.name)

    async def collect(self, order: CollectorOrder) -> Findings:
        node, options = order.scope.node, order.options
        deepest = order.scope.request.hints.max_depth
        depth = options.max_depth if deepest is None else min(deepest, options.max_depth)
        if node is None or not depth or not options.max_items:
            return NO_FINDINGS
        found = await self._follow(order, node, depth)
        best = sorted(found.values(), key=lambda one: -one.score)  # stable
        items, unread = await make_items(order, self.content, best[: options.max_items])
        return Findings(items, considered=len(best), truncated=len(best) > options.max_items, unread=unread)

    async def _follow(self, order: CollectorOrder, focus: Node, depth: int) -> dict[str, ProposedNode]:
        """What can be reached by links, step by step; only through nodes that the caller may read."""
        found: dict[str, ProposedNode] = {}
        level = [focus]
        for step in range(depth):
            contents = await self.content.read(order.workspace, [one.id for one in level])
            new = self._propose(order, focus, level, contents, step)
            if not step and order.options.backlinks:
                new = [*new, *await self._propose_backlinks(order, focus)]
            fresh: dict[str, ProposedNode] = {}
            for one in new:
                if one.node.id != focus.id and one.node.id not in found:
                    fresh.setdefault(one.node.id, one)
            found |= fresh
            level = [one.node for one in fresh.values()][: order.options.max_items]
            if not level:
                break
        return found

    def _propose(
        self, order: CollectorOrder, focus: Node, level: list[Node], contents: Mapping[str, NodeContent], step: int
    ) -> list[ProposedNode]:
        tree, readers, limit = order.snapshot.tree, order.readers, order.options.excerpt
        new = []
        for node in level:
            for link in contents.get(node.id, NO_CONTENT).links[:MOST_LINKS]:
                target = tree.find(link.target)
                if target is not None and tree.may_read(readers, target):
                    score, what = (PLAIN, "linked") if link.type == LINK else (REFERENCE, f"linked as {link.type}")
                    source = "the focus" if node is focus else node.title
                    new.append(ProposedNode(target, score - STEP * step, f"{what} from {source}", limit))
        if not step and focus.type == ROWS:
            new += self._propose_rows(order, focus)
        return new

    def _propose_rows(self, order: CollectorOrder, focus: Node) -> Iterator[ProposedNode]:
        tree, limit = order.snapshot.tree, order.options.excerpt
        for row in list_children(tree, focus, order.readers, order.options.max_items):
            if tree.may_read(order.readers, row):
                yield ProposedNode(row, REFERENCE, "a row of the focused database", limit)

    async def _propose_backlinks(self, order: CollectorOrder, focus: Node) -> list[ProposedNode]:
        tree, limit = order.snapshot.tree, order.options.excerpt
        links = await self.content.list_backlinks(order.workspace, focus.id, MOST_LINKS, order.readers)
        sources = ((link, tree.find(link.source)) for link in links)
        return [
            ProposedNode(node, BACK, "links to the focus", limit)
            for link, node in sources
            if node is not None and tree.may_read(order.readers, node)
        ]
