"""The nodes that the model may fetch in one exchange: those that the caller may read, and no others."""

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Protocol

import msgspec

from gateway.domain.content import NO_CONTENT, ContentReader, NodeContent
from gateway.domain.node import Node
from gateway.domain.search import NodeMatches, NodeQuery
from gateway.domain.snapshot import Snapshot
from gateway.errors import StoreError

PREFIX = "node:"  # of a node's id in the tools; no id of a resource has a colon
MOST_LISTED = 50
LONGEST_QUERY = 2000  # characters
LONGEST_MEANT = 500  # characters of it that are compared by their meaning


class NodeFinder(Protocol):
    """Finds nodes by their words and meaning."""

    async def find(
        self, workspace: str, snapshot: Snapshot, readers: frozenset[str], query: NodeQuery, limit: int
    ) -> NodeMatches:
        """The nodes that the caller may read and that match, best first."""
        ...


class NodeText(msgspec.Struct, frozen=True):
    """A node as the model reads it."""

    id: str  # with its prefix
    title: str
    text: str


class NodeEntry(msgspec.Struct, frozen=True):
    """A node in a list."""

    id: str  # with its prefix
    title: str
    type: str
    path: str


class ReadableNodes(msgspec.Struct, frozen=True):
    """What of a tree the model may fetch in one exchange. Permissions are those of the request's own snapshot."""

    workspace: str
    snapshot: Snapshot
    focus: Node
    readers: frozenset[str]
    library: "NodeLibrary"
    degrade: Callable[[str], None]  # called with the word of what did not answer

    async def get(self, id: str) -> NodeText | None:
        """A node by its prefixed id; None if there is none or the caller may not read it, or the store is down."""
        node = self.snapshot.tree.find(id.removeprefix(PREFIX)) if id.startswith(PREFIX) else None
        if node is None or not self._may_read(node):
            return None
        try:
            found = await self.library.content.read(self.workspace, [node.id])
        except StoreError:
            self.degrade("content")
            return None
        return NodeText(PREFIX + node.id, node.title, self.library.render(found.get(node.id, NO_CONTENT)))

    def __contains__(self, id: object) -> bool:
        """Whether the model may fetch a node, by its prefixed id."""
        node = self.snapshot.tree.get(id.removeprefix(PREFIX)) if isinstance(id, str) else None
        return node is not None and self._may_read(node)

    async def list_entries(self, query: str | None) -> list[NodeEntry]:
        """What a query finds; without one, the node at hand with what is around it."""
        finder = self.library.finder
        nodes = self._list_around() if not query or finder is None else await self._find(query, finder)
        return [NodeEntry(PREFIX + one.id, one.title, one.type, one.path) for one in nodes if self._may_read(one)]

    async def _find(self, query: str, finder: NodeFinder) -> Iterable[Node]:
        wanted = NodeQuery((query[:LONGEST_QUERY],), meant=(query[:LONGEST_MEANT],))
        found = await finder.find(self.workspace, self.snapshot, self.readers, wanted, MOST_LISTED)
        nodes = (self.snapshot.tree.get(one.id) for one in found.matches)
        return [node for node in nodes if node is not None]

    def _list_around(self) -> list[Node]:
        """The node, what is above, below and beside it: what the caller may not read takes nobody's place."""
        tree, focus = self.snapshot.tree, self.focus
        beside = chain(tree.children.get(focus.path, ()), tree.children.get(focus.parent, ()))
        near = chain(tree.list_ancestry(focus), (tree.nodes[path] for path in beside if path != focus.path))
        return list(islice((node for node in near if self._may_read(node)), MOST_LISTED))

    def _may_read(self, node: Node) -> bool:
        return self.snapshot.tree.may_read(self.readers, node)


class NodeLibrary(msgspec.Struct, frozen=True):
    """Opens the nodes of workspaces for exchanges."""

    content: ContentReader
    render: Callable[[NodeContent], str]
    finder: NodeFinder | None = None

    def open(
        self,
        workspace: str,
        snapshot: Snapshot,
        focus: Node | None,
        readers: frozenset[str],
        degrade: Callable[[str], None],
    ) -> ReadableNodes | None:
        """What of a tree the model may fetch; None where a request is not about content, or no node says anything."""
        if focus is None or not snapshot.has_texts:
            return None
        return ReadableNodes(workspace, snapshot, focus, readers, self, degrade)
