"""Looks up what nodes say, whether a policy file or a workspace defines them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from gateway.content.activity import ActivityLog
from gateway.domain.content import ActivityKind, Backlink, NodeActivity, NodeContent, NodeLink
from gateway.domain.node_tree import NodeTree
from gateway.domain.record import Record
from gateway.domain.snapshot import Snapshot
from gateway.fair_queue import FairThreads
from gateway.policies.node_records import CONTENT, read_content
from gateway.stores.content import ContentStore

MOST_BYTES = 32_000_000  # of nodes that are read at once; a workspace may have nodes of 8 MB, and many of them
LARGE_BYTES = 256 * 1024  # from which nodes are decoded off the event loop
MOST_BACKLINKS = 10_000  # that are looked at for a caller who may not read some of them


class NodeRecords(Protocol):
    """What is known of the nodes of all workspaces; the policies' repository is one."""

    def get_snapshot(self, workspace: str) -> Snapshot:
        """The policies of a workspace, with its tree."""
        ...

    def find_record(self, workspace: str, kind: str, alias: str) -> Record | None:
        """The current record of a node without what it says."""
        ...

    async def read_nodes(self, workspace: str, ids: Sequence[str]) -> dict[str, Record]:
        """The whole records of stored nodes by id; raises StoreError."""
        ...


class WorkspaceContent:
    """The ContentReader of a gateway."""

    def __init__(
        self, nodes: NodeRecords, store: ContentStore, activity: ActivityLog, threads: FairThreads | None = None
    ) -> None:
        self._threads = threads or FairThreads("content")
        self._nodes = nodes
        self._store = store
        self.activity = activity
        self.unread = 0  # nodes that were left out, because the texts of all that were wanted are too large together

    async def read(self, workspace: str, ids: Sequence[str]) -> Mapping[str, NodeContent]:
        snapshot = self._nodes.get_snapshot(workspace)
        found = {id: snapshot.contents[id] for id in ids if id in snapshot.contents}
        stored = [id for id in ids if id not in found and id in snapshot.tree.ids]
        if stored:
            count = self.count_readable(workspace, stored)
            self.unread += len(stored) - count
            records = await self._nodes.read_nodes(workspace, stored[:count])
            large = sum(len(record.body or b"") for record in records.values()) > LARGE_BYTES
            decoding = self._threads.run(workspace, decode_nodes, records.items()) if large else None
            found |= await decoding if decoding is not None else decode_nodes(records.items())
        return {id: resolve_links(found[id], snapshot.tree) for id in ids if id in found}

    def count_readable(self, workspace: str, ids: Sequence[str]) -> int:
        """How many of these nodes, from the first on, are read at once: at least one."""
        total = 0
        for place, id in enumerate(ids):
            record = self._nodes.find_record(workspace, CONTENT, id)
            total += record.size if record is not None else 0
            if place and total > MOST_BYTES:
                return place
        return len(ids)

    async def list_backlinks(
        self, workspace: str, id: str, limit: int, readers: frozenset[str] | None = None
    ) -> Sequence[Backlink]:
        snapshot = self._nodes.get_snapshot(workspace)
        node = snapshot.tree.get(id)
        if node is None:
            return []
        names, wanted = (id, node.path), limit
        while True:
            stored = await self._store.list_backlinks(workspace, names, wanted)
            # A node that a file defines meanwhile, or that is gone from the tree, says nothing any more.
            known = [one for one in stored if one.source not in snapshot.contents]
            every = {*snapshot.backlinks.get(id, ()), *known}
            found = [one for one in every if may_read_source(one, snapshot.tree, readers)]
            if len(stored) < wanted or len(found) >= limit or wanted == MOST_BACKLINKS:
                return sorted(found, key=lambda one: (one.source, one.type))[:limit]
            wanted = MOST_BACKLINKS

    async def list_activity(self, workspace: str, user: str, since: float, limit: int) -> Sequence[NodeActivity]:
        return await self.activity.list_recent(workspace, user, since, limit)

    def note_view(self, workspace: str, user: str, id: str) -> None:
        self.activity.note(workspace, user, id, ActivityKind.VIEW)


def decode_nodes(records: Iterable[tuple[str, Record]]) -> dict[str, NodeContent]:
    return {id: read_content(record) for id, record in records}


def may_read_source(link: Backlink, tree: NodeTree, readers: frozenset[str] | None) -> bool:
    """Whether the node that links exists and the caller may read it; None: whoever the caller is."""
    node = tree.get(link.source)
    return node is not None and (readers is None or tree.may_read(readers, node))


def resolve_links(content: NodeContent, tree: NodeTree) -> NodeContent:
    """The content with links to ids; a link may be written as a path."""
    known = tree.ids
    for link in content.links:
        if link.target not in known:
            break
    else:
        return content
    targets = [(link, tree.find(link.target)) for link in content.links]
    return replace(
        content, links=tuple(link if node is None else NodeLink(link.type, node.id) for link, node in targets)
    )
