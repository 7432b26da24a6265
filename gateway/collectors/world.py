"""The world collector: everything around a task, at moderate detail or as a list of names."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from gateway.collectors.branch import find_roots, leave_out_excluded, list_matching, make_summaries, sort_by_type
from gateway.collectors.nodes import ItemMaker, ProposedNode, count_unread
from gateway.collectors.recipe import describe_relations, mark_stated
from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings, FoundItem
from gateway.domain.content import NO_CONTENT, ContentReader, NodeContent
from gateway.domain.node import Node
from gateway.domain.recipe import ContentNeed, Detail, NodeFilter, World

AFTER_LAYERS = 1_000  # what the world adds comes after all layers
WHY = "part of the world of the task"


class WorldCollector(msgspec.Struct, frozen=True):
    """Shows what a recipe calls its world."""

    name: ClassVar = "world"
    category: ClassVar = Category.TASK
    priority: ClassVar = 6
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = NoOptions

    content: ContentReader

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls(parts.content) if parts.content is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return scope.scope.recipe is not None and scope.scope.recipe.world is not None

    async def collect(self, order: CollectorOrder) -> Findings:
        recipe = order.scope.recipe
        if recipe is None or recipe.world is None:
            return NO_FINDINGS
        world, node = recipe.world, None if recipe.content is ContentNeed.NEVER else order.scope.node
        admitted = NodeFilter(world.types)
        roots = find_roots(order, node)
        found, truncated = list_matching(order.snapshot.tree, roots, admitted, order.readers)
        ids = [one.id for one in found[: 2 * world.limit]]
        contents = await self.content.read(order.workspace, ids)
        nodes = sort_by_type([one for one in found if admits(world, one, contents)], world.types)
        items = make_world(order, world, nodes[: world.limit], contents)
        placed = [replace(one, layer=AFTER_LAYERS) for one in items]
        more = truncated or len(nodes) > world.limit or len(found) > 2 * world.limit
        counts = {"nodes": min(len(nodes), world.limit)}
        unread = count_unread(order.workspace, self.content, ids, contents)
        stated = tuple(mark_stated(placed, order))
        return Findings(stated, considered=len(found), truncated=more, unread=unread, counts=counts)


def admits(world: World, node: Node, contents: Mapping[str, NodeContent]) -> bool:
    """Whether a node is one of those that are wanted of its type."""
    wanted = dict(world.where).get(node.type)
    content = contents.get(node.id)
    return content is not None and (wanted is None or wanted.admits(content.properties))


def make_world(
    order: CollectorOrder, world: World, nodes: Sequence[Node], contents: Mapping[str, NodeContent]
) -> list[FoundItem]:
    shown = leave_out_excluded(nodes, order)
    if world.detail is Detail.SUMMARY:
        return make_summaries(shown, contents, world.show, WHY)
    proposed = (ProposedNode(one, 0.8, WHY, world.characters) for one in nodes)
    maker = ItemMaker(order)
    items = [maker.make(one, contents.get(one.node.id, NO_CONTENT)) for one in proposed]
    lines = list(describe_relations({one.id: one for one in shown}, contents))
    relations = FoundItem("#relations", "relations", "relations", "Relations", "\n".join(lines), 0.8, WHY)
    return [*(one for one in items if one is not None), *([relations] if lines else [])]
