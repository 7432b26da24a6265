"""The content tree of a workspace at one moment, for whoever looks at it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gateway.control.base import Object
from gateway.domain.candidate import Assignment
from gateway.domain.lru import LruCache
from gateway.domain.node import Node
from gateway.domain.snapshot import Snapshot
from gateway.errors import NotFound
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.files import PolicyEntry
from gateway.scopes.levels import content_level

KIND = "content"


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node as it is served, and where it comes from."""

    node: Node
    entry: PolicyEntry
    children: int

    @property
    def object(self) -> Object:
        file = None if self.entry.record is not None else str(self.entry.place)
        return Object(KIND, self.node.id, self.entry.data, self.entry.record, file)

    @property
    def parent(self) -> str | None:
        """The id of its parent."""
        parent: str | None = self.entry.data["parent"]
        return parent

    @property
    def in_file(self) -> str:
        """Which file it stands in, ready to be appended to a sentence; empty for one that is stored."""
        return f" in the file {self.object.file}" if self.object.file is not None else ""


@dataclass(frozen=True, slots=True)
class TreeView:
    """The nodes of a workspace."""

    snapshot: Snapshot
    entries: Mapping[str, PolicyEntry]  # by id

    def every(self) -> list[TreeNode]:
        """All nodes, in the order of their paths."""
        nodes = self.snapshot.nodes
        counts = Counter(node.parent for node in nodes.values())
        ordered = sorted(nodes.values(), key=lambda node: node.path.split("/"))
        return [self.found(node, counts[node.path]) for node in ordered]

    def found(self, node: Node, children: int = 0) -> TreeNode:
        return TreeNode(node, self.entries[node.id], children)

    def find(self, name: str) -> TreeNode:
        """A node by id or path; raises NotFound."""
        path = self._path(name)
        if path is None:
            raise NotFound(f"There is no node {name!r}.")
        children = sum(other.parent == path for other in self.snapshot.nodes.values())
        return self.found(self.snapshot.nodes[path], children)

    def identity(self, name: str) -> str | None:
        """The id of what is named by id or path; None if there is no such node."""
        path = self._path(name)
        return None if path is None else self.snapshot.nodes[path].id

    def below(self, path: str) -> Iterator[Node]:
        """The node and everything under it."""
        return (node for node in self.snapshot.nodes.values() if f"{node.path}/".startswith(f"{path}/"))

    def effective(self, node: Node) -> list[Assignment]:
        """The contexts that apply to a node, and which nodes they come from."""
        return [one for one in content_level(node, self.snapshot) if one.context in self.snapshot.contexts]

    def linked(self, node: Node) -> Iterator[tuple[str, Node | None]]:
        """The links of a node as written, each with the node that it means, if there is one."""
        for written in node.links:
            path = self._path(written)
            yield written, None if path is None else self.snapshot.nodes[path]

    def backlinks(self, node: Node) -> list[Node]:
        """The nodes that link to it, by its id or its path."""
        return [
            other for other in self.snapshot.nodes.values() if any(self._path(to) == node.path for to in other.links)
        ]

    def _path(self, name: str) -> str | None:
        bare = name.strip("/")
        return self.snapshot.node_ids.get(name) or (bare if bare in self.snapshot.nodes else None)


def as_written(served: Snapshot, entries: Mapping[str, PolicyEntry]) -> TreeView:
    """The tree that entries make, for policies with faults, which go on serving another one.

    A node whose parent is gone is a root with the path that its parent's id lets guess; of two with one path the
    second has its id for a path. So both are there to be mended.
    """
    nodes: dict[str, Node] = {}
    ids: dict[str, str] = {}
    for id in entries:
        line = _line(id, entries)
        gone = entries[line[-1]].data["parent"]
        above = [gone] if gone is not None else []
        path = "/".join([*above, *(entries[one].data["key"] for one in reversed(line))])
        path = id if path in nodes else path
        nodes[path] = _node(path, entries[id], path.rpartition("/")[0] if len(line) > 1 else None)
        ids[id] = path
    for path, node in nodes.items():
        if node.parent not in nodes:
            nodes[path] = replace(node, parent=None)
    return TreeView(replace(served, nodes=nodes, node_ids=ids, memo=LruCache()), entries)


def _line(id: str, entries: Mapping[str, PolicyEntry]) -> list[str]:
    """A node and its ancestors, nearest first."""
    line = [id]
    while (above := entries[line[-1]].data["parent"]) in entries and above not in line:
        line.append(above)
    return line


def _node(path: str, entry: PolicyEntry, parent: str | None) -> Node:
    data = entry.data
    return Node(
        id=entry.alias,
        path=path,
        parent=parent,
        type=data["type"],
        title=data.get("title") or title_from_alias(data["key"]),
        body=data["body"],
        contexts=tuple(data["contexts"]),
        merge=data["inherit"] == "merge",
        readers=tuple(data["readers"]),
        links=tuple(data["links"]),
    )
