"""The preferences collector: what a user would like answers to be like."""

from typing import ClassVar, Self

import msgspec
from pydantic import Field

from gateway.collectors.nodes import ProposedNode, make_items
from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings
from gateway.domain.content import ContentReader
from gateway.domain.node import Node
from gateway.domain.principal import DEFAULT_WORKSPACE


class PreferenceOptions(NoOptions):
    """Where preferences are kept."""

    root: str = Field("preferences", min_length=1, description="The path of the node that holds them.")


class PreferenceCollector(msgspec.Struct, frozen=True):
    """Reads the node with the id `<root>:user:<name>`, or `<root>:key:<name>` for requests that act for no user.

    Where there is no node `<root>`, nobody has preferences.
    """

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
        node = find_preferences(order)
        if node is None:
            return NO_FINDINGS
        proposed = ProposedNode(node, 0.95, f"what {order.user} prefers", affinity=1.0)
        items, unread = await make_items(order, self.content, [proposed])
        return Findings(items, considered=len(items), unread=unread)


def find_preferences(order: CollectorOrder) -> Node | None:
    """The preferences of a user or key in this workspace.

    Files are the same for all workspaces: a node of theirs that names none is for the default one.
    """
    root, tree = order.options.root, order.snapshot.tree
    named = tree.get(f"{root}@{order.workspace}:{order.actor}")
    if named is not None:
        return named
    node = tree.get(f"{root}:{order.actor}")
    own = node is not None and (order.workspace == DEFAULT_WORKSPACE or node.id not in order.snapshot.contents)
    return node if own else None
