"""Looks up what nodes say, whether a policy file or a workspace defines them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gateway.content.activity import ActivityLog
from gateway.domain.content import ActivityKind, Backlink, NodeActivity, NodeContent, NodeLink
from gateway.domain.node_tree import NodeTree
from gateway.domain.record import Record
from gateway.domain.snapshot import Snapshot
from gateway.policies.node_records import read_content
from gateway.stores.content import ContentStore

MOST_BACKLINKS = 10_000  # that are looked at for a caller who may not read some of them


class NodeRecords(Protocol):
    """What is known of the nodes of all workspaces; the policies' repository is one."""

    def get_snapshot(self, workspace: str) -> Snapshot:
        """The policies of a workspace, with its tree."""
        ...

    async def read_nodes(self, workspace: str, ids: Sequence[str]) -> dict[str, Record]:
        """The whole records of stored nodes by id; raises StoreError."""
        ...


class WorkspaceContent:
    """The ContentReader of a gateway."""

    def __init__(self, nodes: NodeRecords, store: ContentStore, activity: ActivityLog) -> None:
        self._nodes = nodes
        self._store = store
        self.activity = activity

    async def read(self, workspace: str, ids: Sequence[str]) -> Mapping[str, NodeContent]:
        snapshot = self._nodes.get_snapshot(workspace)
        found = {id: snapshot.contents[id] for id in ids if id in snapshot.contents}
        stored = [id for id in ids if id not in found and id in snapshot.tree.ids]
        if stored:
            records = await self._nodes.read_nodes(workspace, stored)
            found |= {id: read_content(record) for id, record in records.items()}
        return {id: resolve_links(found[id], snapshot.tree) for id in ids if id in found}

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


def may_read_source(link: Backlink, tree: NodeTree, readers: frozenset[str] | None) -> bool:
    """Whether the node that links exists and the caller may read it; None: whoever the caller is."""
    node = tree.get(link.source)
    return node is not None and (readers is None or tree.may_read(readers, node))


def resolve_links(content: NodeContent, tree: NodeTree) -> NodeContent:
    """The content with links to ids; a link may be written as a path."""
    if not content.links:
        return content
    targets = [(link, tree.find(link.target)) for link in content.links]
    return replace(
        content, links=tuple(link if node is None else NodeLink(link.type, node.id) for link, node in targets)
    )
