"""The content tree of a workspace at one moment, for reading."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from gateway.control.objects import PolicyObject
from gateway.domain.candidate import Assignment
from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree
from gateway.domain.snapshot import Snapshot
from gateway.errors import NotFound
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.files import PolicyEntry
from gateway.scopes.scope import list_content_assignments

KIND = "content"


class TreeNode(msgspec.Struct, frozen=True):
    """A node as it is served, and where it is defined."""

    node: Node
    entry: PolicyEntry
    children: int

    @property
    def object(self) -> PolicyObject:
        file = None if self.entry.record is not None else str(self.entry.location)
        return PolicyObject(KIND, self.node.id, self.entry.data, self.entry.record, file)

    @property
    def parent(self) -> str | None:
        """The id of its parent."""
        parent: str | None = self.entry.data["parent"]
        return parent

    @property
    def in_file(self) -> str:
        """The file that defines it, to be appended to a sentence; empty for a stored node."""
        return f" in the file {self.object.file}" if self.object.file is not None else ""


class TreeView(msgspec.Struct, frozen=True):
    """The nodes of a workspace."""

    snapshot: Snapshot
    entries: Mapping[str, PolicyEntry]  # by id

    @property
    def nodes(self) -> NodeTree:
        return self.snapshot.tree

    def list_all(self) -> list[TreeNode]:
        """All nodes, ordered by path."""
        return [self.describe(node) for node in self.list_matching(lambda _: True)]

    def list_matching(self, accept: Callable[[Node], bool]) -> list[Node]:
        """The nodes that are accepted, ordered by path."""
        found = [node for node in self.nodes.nodes.values() if accept(node)]
        return sorted(found, key=lambda node: node.path.split("/"))

    def find(self, name: str) -> TreeNode:
        """A node by id or path; raises NotFound."""
        node = self.nodes.find(name)
        if node is None:
            raise NotFound(f"There is no node {name!r}.")
        return self.describe(node)

    def find_id(self, name: str) -> str | None:
        """The id of a node that is named by id or path; None if there is no such node."""
        node = self.nodes.find(name)
        return None if node is None else node.id

    def list_branch(self, node: Node) -> list[PolicyObject]:
        """The node and everything below it."""
        return [self.describe(one).object for one in self.nodes.list_branch(node)]

    def list_effective_contexts(self, node: Node) -> list[Assignment]:
        """The contexts that apply to a node, and the nodes that they come from."""
        assignments = list_content_assignments(node, self.snapshot)
        return [one for one in assignments if one.context in self.snapshot.contexts]

    def describe(self, node: Node) -> TreeNode:
        """A node with where it is defined."""
        return TreeNode(node, self.entries[node.id], self.nodes.count_children(node))


def build_unserved_view(served: Snapshot, entries: Mapping[str, PolicyEntry]) -> TreeView:
    """The tree that entries form, for policies with faults, where another tree is served.

    A node without its parent is a root with the path that its parent's id suggests; of two nodes with the same path
    the second gets its id as its path. So both can be found and fixed.
    """
    nodes: dict[str, Node] = {}
    ids: dict[str, str] = {}
    for id in entries:
        lineage = _list_lineage(id, entries)
        missing = entries[lineage[-1]].data["parent"]
        above = [missing] if missing is not None else []
        path = "/".join([*above, *(entries[one].data["key"] for one in reversed(lineage))])
        path = id if path in nodes else path
        nodes[path] = _make_node(path, entries[id], path.rpartition("/")[0] if len(lineage) > 1 else None)
        ids[id] = path
    for path, node in nodes.items():
        if node.parent not in nodes:
            nodes[path] = replace(node, parent=None)
    return TreeView(replace(served, tree=NodeTree(nodes, ids)), entries)


def _list_lineage(id: str, entries: Mapping[str, PolicyEntry]) -> list[str]:
    """A node and its ancestors, nearest first."""
    lineage = [id]
    while (above := entries[lineage[-1]].data["parent"]) in entries and above not in lineage:
        lineage.append(above)
    return lineage


def _make_node(path: str, entry: PolicyEntry, parent: str | None) -> Node:
    data = entry.data
    return Node(
        id=entry.alias,
        path=path,
        parent=parent,
        type=data["type"],
        title=data.get("title") or title_from_alias(data["key"]),
        contexts=tuple(data["contexts"]),
        merge=data["inherit"] == "merge",
        readers=tuple(data["readers"]),
        order=data["order"],
    )
