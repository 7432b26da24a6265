"""The content tree: find, create, move, change and delete nodes, whether they are stored or defined in files."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.control.authorship import Tags
from gateway.control.object_bodies import NODE_DEFAULTS, make_node_body
from gateway.control.objects import PolicyObject
from gateway.control.tree_view import KIND, TreeNode, TreeView, build_unserved_view
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.errors import Conflict, FieldError, InvalidObject, ServiceUnavailable
from gateway.policies.files import PolicyEntry
from gateway.policies.repository import PolicyRepository
from gateway.policies.workspace import make_stored_entry


@dataclass(frozen=True, slots=True)
class NodePosition:
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

    def __init__(self, policies: PolicyRepository, writer: PolicyWriter) -> None:
        self._policies = policies
        self._writer = writer

    @property
    def kind(self) -> str:
        return KIND

    def tree(self, workspace: str) -> TreeView:
        """The tree as it is served now; while it has faults, as it is written, so that they can be fixed."""
        served, written = self._get_served(workspace), self._policies.entries(workspace)[KIND]
        if served.node_ids.keys() == written.keys():
            return TreeView(served, written)
        return build_unserved_view(served, {**written, **self._find_detached(workspace, written)})

    def find(self, workspace: str, name: str) -> PolicyObject | None:
        """A node by id or path, if it exists."""
        tree = self.tree(workspace)
        return None if tree.find_id(name) is None else tree.find(name).object

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
            await self._save(caller, "update", found.node.id, _make_body(sent, position), found, tags)
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
            deleted = tree.list_branch(found.node.path)
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
            data = dict(found.entry.data)
            sent = data | {"contexts": list(contexts), "inherit": inherit or data["inherit"]}
            body = _make_body(sent, NodePosition(data["key"], data["parent"]))
            await self._save(caller, "update", found.node.id, body, found, tags)
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
        usual = {"parent": None, **NODE_DEFAULTS}
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
        former: TreeNode | None,
        tags: Tags = None,
    ) -> None:
        if former is not None:
            data = former.entry.data
            if body == _make_body(data, NodePosition(data["key"], former.parent)):
                return
        await self._writer.check(caller.workspace, {(KIND, identity): body})
        record = former.object.get_record() if former is not None else None
        await self._writer.commit(caller, action, [Change(KIND, identity, body, record)], tags)


def _make_body(sent: Mapping[str, Any], position: NodePosition) -> dict[str, Any]:
    return make_node_body({**sent, "key": position.key, "parent": position.parent})


def _require_free(path: str, tree: TreeView) -> None:
    if path in tree.snapshot.nodes:
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
