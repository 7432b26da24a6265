"""The content tree: find, create, move, change and delete nodes, whether they are stored or defined in files."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from gateway.content.reader import WorkspaceContent
from gateway.control.authorship import Tags
from gateway.control.object_bodies import NODE_OUTLINE_DEFAULTS, make_node_body
from gateway.control.objects import PolicyObject
from gateway.control.tree_view import KIND, TreeNode, TreeView, build_unserved_view
from gateway.control.writer import Change, PolicyWriter, make_field_error
from gateway.domain.content import NO_CONTENT, ActivityKind, Backlink, NodeActivity, NodeContent
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.errors import Conflict, FieldError, InvalidObject, ServiceUnavailable
from gateway.policies.files import PolicyEntry
from gateway.policies.node_records import make_outline, read_content, read_entry, read_said
from gateway.policies.repository import PolicyRepository
from gateway.policies.shapes import StoredNodeShape
from gateway.policies.workspace import make_stored_entry


class NodePosition(msgspec.Struct, frozen=True):
    """A place in the tree."""

    key: str
    parent: str | None  # id

    @classmethod
    def read(cls, sent: Mapping[str, Any], former: Mapping[str, Any], tree: TreeView) -> "NodePosition":
        """The position that was sent, else the former one; a parent may be named by path, null means a root."""
        parent = former.get("parent")
        if "parent" in sent:
            parent = sent["parent"] and tree.find_id(sent["parent"])
            if sent["parent"] and parent is None:
                raise _make_error("/parent", f"there is no node {sent['parent']!r}")
        return cls(sent.get("key") or former.get("key") or "", parent)

    def path(self, tree: TreeView) -> str:
        """The path of this position; raises InvalidObject if the parent does not exist."""
        if self.parent is None:
            return self.key
        if self.parent not in tree.entries:
            raise _make_error("/parent", f"there is no node with the id {self.parent!r}")
        return f"{tree.find(self.parent).node.path}/{self.key}"


class Content:
    """The trees of all workspaces; a caller sees its own."""

    def __init__(self, policies: PolicyRepository, writer: PolicyWriter, content: WorkspaceContent) -> None:
        self._policies = policies
        self._writer = writer
        self._content = content

    @property
    def kind(self) -> str:
        return KIND

    def tree(self, workspace: str) -> TreeView:
        """The tree as it is served now; while it has faults, as it is written, so that they can be fixed."""
        served, written = self._get_served(workspace), self._policies.entries(workspace).nodes
        if served.tree is written.structure:
            return TreeView(served, written)
        return build_unserved_view(served, {**written, **self._find_detached(workspace, written)})

    def find(self, workspace: str, name: str) -> PolicyObject | None:
        """A node by id or path, if it exists."""
        tree = self.tree(workspace)
        return None if tree.find_id(name) is None else tree.find(name).object

    async def read(self, workspace: str, found: Sequence[TreeNode]) -> dict[str, NodeContent]:
        """What nodes say, by id, their links as they are written; raises StoreError."""
        stored = [one.node.id for one in found if one.entry.record is not None]
        records = await self._policies.read_nodes(workspace, stored) if stored else {}
        own = {one.node.id: NO_CONTENT if one.entry.record else read_entry(one.entry) for one in found}
        return own | {id: read_content(record) for id, record in records.items()}

    def count_readable(self, workspace: str, found: Sequence[TreeNode]) -> int:
        """How many of these nodes, from the first on, fit into one page."""
        return self._content.count_readable(workspace, [one.node.id for one in found])

    async def list_backlinks(self, workspace: str, one: TreeNode, limit: int) -> Sequence[Backlink]:
        """Links to a node from anywhere; raises StoreError."""
        return await self._content.list_backlinks(workspace, one.node.id, limit)

    def note_activity(self, workspace: str, user: str, one: TreeNode, kind: ActivityKind) -> None:
        """Remember that a user did something with a node."""
        self._content.activity.note(workspace, user, one.node.id, kind)

    async def list_activity(self, workspace: str, user: str, since: float, limit: int) -> Sequence[NodeActivity]:
        """What a user did, the latest first; raises StoreError."""
        return await self._content.activity.list_recent(workspace, user, since, limit)

    async def check(self, workspace: str, identity: str, body: Mapping[str, Any]) -> None:
        """Raise Conflict or InvalidObject unless a node may have this body, at this position, again."""
        tree = self.tree(workspace)
        position = NodePosition(body.get("key") or identity, body.get("parent"))
        if identity in tree.entries:
            _require_movable(position, tree.find(identity), tree)
        else:
            _require_free(position.path(tree), tree)
        await self._writer.check(workspace, {(KIND, identity): body})

    async def create(self, caller: Principal, sent: Mapping[str, Any]) -> TreeNode:
        """Create a node; raises Conflict if its id or its path is taken."""
        identity = sent.get("id") or f"node-{secrets.token_hex(6)}"
        async with self._writer.lock(caller.workspace):
            tree = self.tree(caller.workspace)
            if identity in tree.entries:
                raise Conflict(f"The node {identity!r} already exists{tree.find(identity).in_file}.")
            position = NodePosition.read(sent, {}, tree)
            _require_free(position.path(tree), tree)
            await self._save(caller, "create", identity, _make_body(sent, position), None)
        return self.tree(caller.workspace).find(identity)

    async def replace(self, caller: Principal, name: str, sent: Mapping[str, Any], tags: Tags = None) -> TreeNode:
        """Replace a node; it stays where it is unless another key or parent is sent."""
        async with self._writer.lock(caller.workspace):
            tree = self.tree(caller.workspace)
            found = tree.find(name)
            found.object.require_writable(tags)
            if sent.get("id") not in (None, found.node.id):
                raise _make_error("/id", f"cannot be changed; this is node {found.node.id!r}")
            position = NodePosition.read(sent, found.entry.data, tree)
            _require_movable(position, found, tree)
            whole = await self._read_whole(caller.workspace, found)
            await self._save(caller, "update", found.node.id, _make_body(sent, position), whole, tags)
        return self.tree(caller.workspace).find(found.node.id)

    async def move(self, caller: Principal, name: str, sent: Mapping[str, Any], tags: Tags = None) -> TreeNode:
        """Give a node another key, parent or order; what it says, and everything below it, goes along."""
        async with self._writer.lock(caller.workspace):
            tree = self.tree(caller.workspace)
            found = tree.find(name)
            found.object.require_writable(tags)
            position = NodePosition.read(sent, found.entry.data, tree)
            _require_movable(position, found, tree)
            whole = await self._read_whole(caller.workspace, found)
            data = {**found.entry.data, **read_said(whole), "order": sent.get("order", found.node.order)}
            await self._save(caller, "update", found.node.id, _make_body(data, position), whole, tags)
        return self.tree(caller.workspace).find(found.node.id)

    async def delete(self, caller: Principal, name: str, *, recursive: bool = False, tags: Tags = None) -> None:
        """Delete a node; raises Conflict if it has children, unless these are to be deleted too."""
        async with self._writer.lock(caller.workspace):
            tree = self.tree(caller.workspace)
            found = tree.find(name)
            found.object.require_writable(tags)
            if found.children and not recursive:
                message = f"{found.node.path!r} has child nodes ({found.children})"
                raise Conflict(f"{message}; use recursive=true to delete them too.")
            deleted = tree.list_branch(found.node)
            await self._writer.check(caller.workspace, {(KIND, one.alias): None for one in deleted})
            changes = [Change(KIND, one.alias, None, one.get_record()) for one in deleted]
            await self._writer.commit(caller, "delete", changes, tags)

    async def assign(
        self, caller: Principal, name: str, contexts: Sequence[str], inherit: str | None, tags: Tags = None
    ) -> TreeNode:
        """Assign contexts to a node; an empty list removes those that it has."""
        async with self._writer.lock(caller.workspace):
            found = self.tree(caller.workspace).find(name)
            found.object.require_writable(tags)
            whole = await self._read_whole(caller.workspace, found)
            data = {**found.entry.data, **read_said(whole)}
            sent = data | {"contexts": list(contexts), "inherit": inherit or data["inherit"]}
            body = _make_body(sent, NodePosition(data["key"], data["parent"]))
            await self._save(caller, "update", found.node.id, body, whole, tags)
        return self.tree(caller.workspace).find(found.node.id)

    def _get_served(self, workspace: str) -> Snapshot:
        try:
            return self._policies.get_snapshot(workspace)
        except ServiceUnavailable:
            return EMPTY_SNAPSHOT  # invalid since the start: nothing is served, but everything can be fixed

    def _find_detached(self, workspace: str, written: Mapping[str, PolicyEntry]) -> dict[str, PolicyEntry]:
        """Stored nodes that are not in the tree, because a policy file took their parent or their path."""
        records = (record for record in self._policies.list_records(KIND) if record.key.workspace == workspace)
        detached = {record.key.alias: record for record in records if record.key.alias not in written}
        usual = {"parent": None, **NODE_OUTLINE_DEFAULTS}
        return {
            id: make_stored_entry(KIND, id, {"key": id, **usual, **orjson.loads(record.body or b"{}")}, record)
            for id, record in detached.items()
        }

    async def _save(
        self,
        caller: Principal,
        action: str,
        identity: str,
        body: dict[str, Any],
        former: Record | None,  # whole
        tags: Tags = None,
    ) -> None:
        before = None if former is None else orjson.loads(former.body or b"{}")
        if before == body:
            return
        if before is not None and make_outline(before) == make_outline(body):
            _check_said(identity, body)  # the tree stays as it is: nothing else can be wrong
        else:
            await self._writer.check(caller.workspace, {(KIND, identity): body})
        await self._writer.commit(caller, action, [Change(KIND, identity, body, former)], tags)
        self._content.activity.note(caller.workspace, caller.name_actor(None), identity, ActivityKind.EDIT)

    async def _read_whole(self, workspace: str, found: TreeNode) -> Record:
        """The record of a stored node with what it says; raises Conflict if somebody has deleted it meanwhile."""
        whole = (await self._policies.read_nodes(workspace, [found.node.id])).get(found.node.id)
        if whole is None:
            raise Conflict(f"The node {found.node.path!r} was deleted by someone else in the meantime.")
        return whole


def _check_said(identity: str, body: Mapping[str, Any]) -> None:
    """Raise InvalidObject with every fault of a node whose place in the tree is known to be valid."""
    _, faults = make_stored_entry(KIND, identity, body, None).location.validate(StoredNodeShape, body)
    if faults:
        raise InvalidObject("Validation failed; nothing was changed.", [make_field_error(one) for one in faults])


def _make_body(sent: Mapping[str, Any], position: NodePosition) -> dict[str, Any]:
    return make_node_body({**sent, "key": position.key, "parent": position.parent})


def _require_free(path: str, tree: TreeView) -> None:
    if path in tree.nodes.nodes:
        raise Conflict(f"The node {path!r} already exists{tree.find(path).in_file}.")


def _require_movable(position: NodePosition, found: TreeNode, tree: TreeView) -> None:
    path = position.path(tree)
    if path == found.node.path:
        return
    if f"{path}/".startswith(f"{found.node.path}/"):
        raise _make_error("/parent", "would make the node its own ancestor")
    _require_free(path, tree)


def _make_error(pointer: str, message: str) -> InvalidObject:
    return InvalidObject("The node cannot be placed there.", [FieldError(pointer, message)])
