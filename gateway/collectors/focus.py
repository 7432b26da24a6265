"""The focus collector: the node that a request is about, and what surrounds it."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import ClassVar, Self

import msgspec
from pydantic import Field

from gateway.collectors.branch import leave_out_excluded
from gateway.collectors.nodes import (
    ProposedNode,
    Truncation,
    is_about_content,
    list_titles_above,
    make_items,
)
from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings, FoundItem
from gateway.domain.content import ContentReader
from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree
from gateway.domain.principal import may_read

MOST_LISTED = 100  # entries of a page's summary
SUMMARY = "#summary"  # after a page's id


class FocusOptions(NoOptions):
    """How much of what surrounds the node is shown."""

    ancestor_depth: int = Field(3, ge=0, le=20, description="Levels above the node.")
    sibling_count: int = Field(2, ge=0, le=20, description="Neighbours on either side.")
    children_limit: int = Field(5, ge=0, le=100, description="Nodes below it, in order.")
    summary: bool = Field(True, description="List what the page contains.")
    excerpt: int = Field(600, ge=100, le=100_000, description="Characters of each node that surrounds it.")
    truncate: Truncation = Field("extractive", description="How the node itself is cut if it does not fit.")


class FocusCollector(msgspec.Struct, frozen=True):
    """The node itself, its ancestors, neighbours and children, and a summary of what it contains."""

    name: ClassVar = "focus"
    category: ClassVar = Category.FOCUS
    priority: ClassVar = 10
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = FocusOptions

    content: ContentReader

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls(parts.content) if parts.content is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return scope.scope.node is not None and is_about_content(scope, self.name)

    async def collect(self, order: CollectorOrder) -> Findings:
        node, tree = order.scope.node, order.snapshot.tree
        if node is None:
            return NO_FINDINGS
        items, unread = await make_items(order, self.content, propose_around(node, tree, order))
        options: FocusOptions = order.options
        if not items:
            return Findings(unread=unread)
        shallow = order.scope.request.hints.max_depth == 0
        summary = summarize_page(node, order) if options.summary and not shallow else None
        found = (*items, *([summary] if summary is not None else []))
        below = list_children(tree, node, order.readers, options.children_limit + 1)
        return Findings(found, len(found), truncated=len(below) > options.children_limit, unread=unread)


def propose_around(node: Node, tree: NodeTree, order: CollectorOrder) -> Iterator[ProposedNode]:
    """The node and what is near to it, as far as options and hints allow."""
    options: FocusOptions = order.options
    limit, deepest = options.excerpt, order.scope.request.hints.max_depth
    yield ProposedNode(node, 1.0, "the content that the request is about", truncate=options.truncate)
    above = tree.list_ancestry(node)[1:]
    depth = options.ancestor_depth if deepest is None else min(deepest, options.ancestor_depth)
    for place, ancestor in enumerate(above[:depth]):
        yield ProposedNode(ancestor, 0.9 - 0.1 * place, f"{describe_steps(place + 1)} above the focus", limit)
    if deepest is None or deepest >= 1:
        for place, child in enumerate(list_children(tree, node, order.readers, options.children_limit)):
            yield ProposedNode(child, 0.85 - 0.05 * place, "below the focus", limit)
    if deepest is None or deepest >= 2:
        for place, sibling in enumerate(list_neighbours(tree, node, order.readers, options.sibling_count)):
            yield ProposedNode(sibling, 0.8 - 0.05 * place, "beside the focus", limit)


def describe_steps(count: int) -> str:
    return "one level" if count == 1 else f"{count} levels"


def list_children(tree: NodeTree, node: Node, readers: frozenset[str], most: int) -> list[Node]:
    """The first children that a reader of the node may read; a node may have many thousands."""
    return take_readable(tree, tree.children.get(node.path, ()), readers, most)


def list_neighbours(tree: NodeTree, node: Node, readers: frozenset[str], most: int) -> list[Node]:
    """The siblings around a node, the nearest first, the one before it ahead of the one after it."""
    paths = tree.children.get(node.parent, ())
    if not most or node.path not in paths:
        return []
    place = paths.index(node.path)
    before = take_readable(tree, (paths[at] for at in range(place - 1, -1, -1)), readers, most)
    after = take_readable(tree, (paths[at] for at in range(place + 1, len(paths))), readers, most)
    return [one for step in range(most) for one in (*before[step : step + 1], *after[step : step + 1])]


def take_readable(tree: NodeTree, paths: Iterable[str], readers: frozenset[str], most: int) -> list[Node]:
    """The first nodes with a readable parent that are readable too: what is forbidden takes nobody's place."""
    nodes = (tree.nodes[path] for path in paths)
    return list(islice((node for node in nodes if may_read(readers, node.readers)), most))


def summarize_page(node: Node, order: CollectorOrder) -> FoundItem | None:
    """What a page contains, by title and type, as far as the caller may read it; None if it contains nothing."""
    tree = order.snapshot.tree
    below = leave_out_excluded(list_children(tree, node, order.readers, MOST_LISTED + 1), order)
    if not below:
        return None
    lines = [f"- {one.title} ({one.type})" for one in below[:MOST_LISTED]]
    lines += ["- …"] if len(below) > MOST_LISTED else []
    return FoundItem(
        id=node.id + SUMMARY,
        kind="summary",
        type="contents",
        title=node.title,
        text="\n".join(lines),
        score=0.8,
        why="what the focus contains",
        breadcrumb=list_titles_above(tree, node),
        distance=1,
        truncate="keep_start",
    )
