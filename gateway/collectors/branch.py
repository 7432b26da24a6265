"""What lies below some nodes: by type and properties, at length or as a list of names."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.collectors.nodes import format_value
from gateway.domain.collector import CollectorOrder, FoundItem
from gateway.domain.content import NO_CONTENT, NodeContent
from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree
from gateway.domain.principal import may_read
from gateway.domain.recipe import NodeFilter

MOST_VISITED = 5_000  # nodes of a branch that the caller may read
MOST_LOOKED_AT = 20_000  # with those that it may not


class MatchingNodes(NamedTuple):
    """Nodes that a filter admits by type, and whether there may be more."""

    nodes: list[Node]
    truncated: bool


def find_roots(order: CollectorOrder, node: Node | None) -> list[Node]:
    """The nodes below which a task looks: as the recipe says, else the top of what the request is about, else all."""
    tree, recipe = order.snapshot.tree, order.scope.recipe
    if recipe is not None and recipe.root is not None:
        root = tree.find(recipe.root)
        return [root] if root is not None else []
    named = node or next((one for nodes in order.scope.refs.values() for one in nodes), None)
    return tree.list_roots() if named is None else [tree.list_ancestry(named)[-1]]


def list_matching(
    tree: NodeTree, roots: Sequence[Node], admitted: NodeFilter, readers: frozenset[str]
) -> MatchingNodes:
    """The nodes below some others that the caller may read, in the order of the tree."""
    found: list[Node] = []
    seen = 0
    for looked_at, node in enumerate(walk(tree, roots, readers)):
        if seen >= MOST_VISITED or looked_at >= MOST_LOOKED_AT:
            return MatchingNodes(found, True)
        if node is not None:
            seen += 1
            if admitted.admits_type(node.type):
                found.append(node)
    return MatchingNodes(found, False)


def walk(tree: NodeTree, roots: Sequence[Node], readers: frozenset[str]) -> Iterator[Node | None]:
    """Nodes and what is below them; None for one that the caller may not read, which hides all that is below it."""
    first = (root.path for root in roots if tree.may_read(readers, root))
    pending: list[Iterator[str]] = [iter(tuple(first))]
    while pending:
        path = next(pending[-1], None)
        if path is None:
            pending.pop()
            continue
        node = tree.nodes[path]
        if may_read(readers, node.readers):  # whoever came here may read all that is above it
            yield node
            pending.append(iter(tree.children.get(path, ())))
        else:
            yield None


def leave_out_excluded(nodes: Sequence[Node], order: CollectorOrder) -> list[Node]:
    """The nodes that the request does not exclude: what is listed together cannot be dropped one by one."""
    exclude = order.scope.request.hints.exclude
    return [one for one in nodes if one.id not in exclude]


def sort_by_type(nodes: Sequence[Node], types: Sequence[str] = ()) -> list[Node]:
    """Nodes of one type together, in the order of the types, or else in the order in which they come up first."""
    order = {type: place for place, type in enumerate(types or dict.fromkeys(one.type for one in nodes))}
    return sorted(nodes, key=lambda one: order[one.type])  # stable


def make_summaries(
    nodes: Sequence[Node], contents: Mapping[str, NodeContent], show: Sequence[str], why: str
) -> list[FoundItem]:
    """An item for each type: the titles of its nodes with a few properties, a line each."""
    by_type: dict[str, list[Node]] = {}
    for node in nodes:
        by_type.setdefault(node.type, []).append(node)
    return [
        FoundItem(
            f"#{type}",
            "summary",
            type,
            f"All of type {type}",
            "\n".join(summarize(one, contents.get(one.id, NO_CONTENT), show) for one in some),
            1.0,
            why,
            truncate="keep_start",
        )
        for type, some in by_type.items()
    ]


def summarize(node: Node, content: NodeContent, show: Sequence[str]) -> str:
    """A node in one line."""
    shown = [text for name in show if (text := format_value(content.properties.get(name)))]
    return f"- {node.title}" + (f" ({', '.join(shown)})" if shown else "")
