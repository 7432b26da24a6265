"""The content tree: nodes of files and of the store, found, made, moved, changed and deleted."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from gateway.control.base import Object, PolicyRepositoryProtocol, Tags
from gateway.control.forms import USUAL, node_body
from gateway.control.tree import KIND, TreeNode, TreeView, as_written
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.errors import Conflict, FieldError, InvalidObject, ServiceUnavailable
from gateway.policies.files import PolicyEntry
from gateway.policies.workspace import entry_of


class Served(PolicyRepositoryProtocol, Protocol):
    """The policies of all workspaces, and what is served of them."""

    def of(self, workspace: str) -> Snapshot:
        """The snapshot of a workspace; raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Move:
    """Where a node is to stand."""

    key: str
    parent: str | None  # id

    @classmethod
    def of(cls, sent: Mapping[str, Any], former: Mapping[str, Any], tree: TreeView) -> "Move":
        """What was sent, where it says something; a parent may be named by its path, and null means a root."""
        parent = former.get("parent")
        if "parent" in sent:
            parent = sent["parent"] and tree.identity(sent["parent"])
            if sent["parent"] and parent is None:
                raise _wrong("/parent", f"there is no node {sent['parent']!r}")
        return cls(sent.get("key") or former.get("key") or "", parent)

    def path(self, tree: TreeView) -> str:
        """Its path there; raises Invalid if the parent is gone."""
        if self.parent is None:
            return self.key
        if self.parent not in tree.entries:
            raise _wrong("/parent", f"there is no node with the id {self.parent!r}")
        return f"{tree.find(self.parent).node.path}/{self.key}"


class Content:
    """The trees of all workspaces; each caller's own."""

    def __init__(self, policies: Served, desk: PolicyWriter) -> None:
        self._policies = policies
        self._desk = desk

    @property
    def kind(self) -> str:
        return KIND

    def tree(self, workspace: str) -> TreeView:
        """The tree as it is served now; while it has faults, as it is written, so that they can be mended."""
        served, written = self._served(workspace), self._policies.entries(workspace)[KIND]
        if served.node_ids.keys() == written.keys():
            return TreeView(served, written)
        return as_written(served, {**written, **self._astray(workspace, written)})

    def find(self, workspace: str, name: str) -> Object | None:
        """A node by id or path, if there is one."""
        tree = self.tree(workspace)
        return None if tree.identity(name) is None else tree.find(name).object

    async def check(self, workspace: str, identity: str, body: Mapping[str, Any]) -> None:
        """Raise Conflict or Invalid unless a node may be again what it was, where it was."""
        tree = self.tree(workspace)
        move = Move(body.get("key") or identity, body.get("parent"))
        if identity in tree.entries:
            _require_possible(move, tree.find(identity), tree)
        else:
            _require_free(move.path(tree), tree)
        await self._desk.tried(workspace, {(KIND, identity): body})

    async def create(self, caller: Principal, sent: Mapping[str, Any]) -> TreeNode:
        """A new node; raises Conflict if its id or its path is taken."""
        identity = sent.get("id") or f"node-{secrets.token_hex(6)}"
        async with self._desk.turn(caller.workspace):
            tree = self.tree(caller.workspace)
            if identity in tree.entries:
                raise Conflict(f"There is a node {identity!r} already{tree.find(identity).in_file}.")
            move = Move.of(sent, {}, tree)
            _require_free(move.path(tree), tree)
            await self._store(caller, "create", identity, _body(sent, move), None)
        return self.tree(caller.workspace).find(identity)

    async def replace(self, caller: Principal, name: str, sent: Mapping[str, Any], tags: Tags = None) -> TreeNode:
        """Replace a node; it stays where it is unless another key or parent is sent."""
        async with self._desk.turn(caller.workspace):
            tree = self.tree(caller.workspace)
            found = tree.find(name)
            found.object.require(tags)
            found.object.own()
            if sent.get("id") not in (None, found.node.id):
                raise _wrong("/id", f"cannot be changed; this is node {found.node.id!r}")
            move = Move.of(sent, found.entry.data, tree)
            _require_possible(move, found, tree)
            await self._store(caller, "update", found.node.id, _body(sent, move), found, tags)
        return self.tree(caller.workspace).find(found.node.id)

    async def delete(self, caller: Principal, name: str, *, recursive: bool = False, tags: Tags = None) -> None:
        """Delete a node, with everything below it if asked to; raises Conflict otherwise while there is something."""
        async with self._desk.turn(caller.workspace):
            tree = self.tree(caller.workspace)
            found = tree.find(name)
            found.object.require(tags)
            found.object.own()
            if found.children and not recursive:
                raise Conflict(f"{found.node.path!r} has {found.children} nodes below it; delete with recursive=true.")
            gone = [tree.found(node).object for node in tree.below(found.node.path)]
            await self._desk.tried(caller.workspace, {(KIND, one.alias): None for one in gone})
            changes = [Change(KIND, one.alias, None, one.own()) for one in gone]
            await self._desk.commit(caller, "delete", changes, tags)

    async def assign(
        self, caller: Principal, name: str, contexts: Sequence[str], inherit: str | None, tags: Tags = None
    ) -> TreeNode:
        """Give a node contexts of its own; none takes away what it has."""
        async with self._desk.turn(caller.workspace):
            found = self.tree(caller.workspace).find(name)
            found.object.require(tags)
            found.object.own()
            data = dict(found.entry.data)
            sent = data | {"contexts": list(contexts), "inherit": inherit or data["inherit"]}
            body = _body(sent, Move(data["key"], data["parent"]))
            await self._store(caller, "update", found.node.id, body, found, tags)
        return self.tree(caller.workspace).find(found.node.id)

    def _served(self, workspace: str) -> Snapshot:
        try:
            return self._policies.of(workspace)
        except ServiceUnavailable:
            return EMPTY_SNAPSHOT  # faulty since the start: nothing is served, and all the more has to be mended

    def _astray(self, workspace: str, written: Mapping[str, PolicyEntry]) -> dict[str, PolicyEntry]:
        """Stored nodes that have no place in the tree, because a policy file took their parent or their path."""
        stored = (record for record in self._policies.stored(KIND) if record.key.workspace == workspace)
        lost = {record.key.alias: record for record in stored if record.key.alias not in written}
        usual = {"parent": None, **USUAL}
        return {
            id: entry_of(KIND, id, {"key": id, **usual, **orjson.loads(record.body or b"{}")}, record)
            for id, record in lost.items()
        }

    async def _store(
        self,
        caller: Principal,
        action: str,
        identity: str,
        body: dict[str, Any],
        former: TreeNode | None,
        tags: Tags = None,
    ) -> None:
        if former is not None and body == _body(former.entry.data, Move(former.entry.data["key"], former.parent)):
            return
        await self._desk.tried(caller.workspace, {(KIND, identity): body})
        record = former.object.own() if former is not None else None
        await self._desk.commit(caller, action, [Change(KIND, identity, body, record)], tags)


def _body(sent: Mapping[str, Any], move: Move) -> dict[str, Any]:
    return node_body({**sent, "key": move.key, "parent": move.parent})


def _require_free(path: str, tree: TreeView) -> None:
    if path in tree.snapshot.nodes:
        raise Conflict(f"There is a node {path!r} already{tree.find(path).in_file}.")


def _require_possible(move: Move, found: TreeNode, tree: TreeView) -> None:
    path = move.path(tree)
    if path == found.node.path:
        return
    if f"{path}/".startswith(f"{found.node.path}/"):
        raise _wrong("/parent", "would make the node its own ancestor")
    _require_free(path, tree)


def _wrong(pointer: str, message: str) -> InvalidObject:
    return InvalidObject("The node cannot stand there.", [FieldError(pointer, message)])
