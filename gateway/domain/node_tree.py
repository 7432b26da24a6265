"""The content tree: who is above, below and beside whom, without any text."""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from gateway.domain.content_names import ContentNames
from gateway.domain.node import Node
from gateway.domain.principal import may_read

NO_PATHS: tuple[str, ...] = ()


class NodeTree(msgspec.Struct, frozen=True, dict=True):
    """All nodes of a workspace, immutable. Whatever changes a node's place, names, contexts or readers makes another.

    Every answer takes time in proportion to its size, never to that of the tree.
    """

    nodes: Mapping[str, Node] = msgspec.field(default_factory=dict)  # by path, in the order of definition
    ids: Mapping[str, str] = msgspec.field(default_factory=dict)  # id → path
    below: Mapping[str | None, tuple[str, ...]] | None = None  # children, if they are known

    @cached_property
    def children(self) -> Mapping[str | None, tuple[str, ...]]:
        """The paths of the children of every node that has some, in order; None: those of the roots."""
        if self.below is not None:
            return self.below
        below: dict[str | None, list[str]] = {}
        for path, node in self.nodes.items():
            below.setdefault(node.parent, []).append(path)
        return {parent: self._put_in_order(paths) for parent, paths in below.items()}

    @cached_property
    def names(self) -> ContentNames:
        """Of its nodes, for whoever looks for them."""
        return ContentNames(self.nodes)

    def get(self, id: str) -> Node | None:
        """The node with this id."""
        path = self.ids.get(id)
        return None if path is None else self.nodes[path]

    def find(self, name: str) -> Node | None:
        """The node with this id or path; a slash at either end of a path makes no difference."""
        return self.get(name) or self.nodes.get(name.strip("/"))

    def get_parent(self, node: Node) -> Node | None:
        return None if node.parent is None else self.nodes[node.parent]

    def list_ancestry(self, node: Node) -> list[Node]:
        """The node and its ancestors, nearest first."""
        line = [node]
        while line[-1].parent is not None:
            line.append(self.nodes[line[-1].parent])
        return line

    def list_children(self, node: Node) -> list[Node]:
        """Its children in order."""
        return [self.nodes[path] for path in self.children.get(node.path, NO_PATHS)]

    def count_children(self, node: Node) -> int:
        return len(self.children.get(node.path, NO_PATHS))

    def list_roots(self) -> list[Node]:
        return [self.nodes[path] for path in self.children.get(None, NO_PATHS)]

    def list_branch(self, node: Node) -> list[Node]:
        """The node and everything below it, each before its children, which are in order."""
        branch, pending = [], [node]
        while pending:
            branch.append(one := pending.pop())
            pending += reversed(self.list_children(one))
        return branch

    def may_read(self, readers: frozenset[str], node: Node) -> bool:
        """Whether the caller may read a node: only a reader of everything above it may."""
        nodes = self.nodes
        while not node.readers or may_read(readers, node.readers):
            if node.parent is None:
                return True
            node = nodes[node.parent]
        return False

    def _put_in_order(self, paths: list[str]) -> tuple[str, ...]:
        if len(paths) > 1 and any(self.nodes[path].order for path in paths):
            paths.sort(key=lambda path: self.nodes[path].order)  # stable
        return tuple(paths)


EMPTY_TREE = NodeTree()
