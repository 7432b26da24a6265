"""Compiles the content tree: nested in policy files, node by node in a store."""

import sys
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from gateway.domain.content import NodeContent, NodeLink
from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree
from gateway.errors import Fault, quote
from gateway.policies.compiled_entry import compute_digest
from gateway.policies.context_compiler import list_reader_faults, title_from_alias
from gateway.policies.files import EntryLocation, PolicyEntry, split_entries
from gateway.policies.shapes import NodeShape, StoredNodeShape, find_node_key_fault

MAX_DEPTH = 64  # levels, as in policy files: paths of nodes grow with their depth
CIRCULAR = "would make the node its own ancestor"
MISSING = "there is no such node"
TOO_DEEP = f"would put the node more than {MAX_DEPTH} levels deep"


class CheckedNode(msgspec.Struct, frozen=True):
    """A stored node that was validated on its own."""

    entry: PolicyEntry
    node: Node  # with its key in place of its path
    parent: str | None  # id
    faults: tuple[Fault, ...]  # a node with faults has no place in the tree

    @property
    def key(self) -> str:
        return self.node.path


class TreeFacts(msgspec.Struct, frozen=True):
    """What is worked out over all nodes of a tree."""

    digest: int  # the sum of those of its nodes
    below: Mapping[str | None, tuple[str, ...]]  # the children of each node that has some, in order, by path
    readers: frozenset[str]  # that reader lists name, or have named
    referring: Mapping[str, PolicyEntry]  # entries that may name contexts, by path


class ContentTree(msgspec.Struct, frozen=True, dict=True):
    """A content tree; faults are collected, not raised."""

    nodes: dict[str, Node] = msgspec.field(default_factory=dict)  # by path
    ids: dict[str, str] = msgspec.field(default_factory=dict)  # id → path
    entries: dict[str, PolicyEntry] = msgspec.field(default_factory=dict)  # by path
    contents: dict[str, NodeContent] = msgspec.field(default_factory=dict)  # what nodes of files say, by id
    faults: list[Fault] = msgspec.field(default_factory=list)
    base: "ContentTree | None" = None  # the files' tree, to which stored nodes were added, …
    stored: Mapping[str, PolicyEntry] = msgspec.field(default_factory=dict)  # … these, by id
    checked: Mapping[str, CheckedNode] = msgspec.field(default_factory=dict)  # stored nodes by id
    adopted: frozenset[str] = frozenset()  # ids of stored nodes that take over from the files'

    given: "TreeFacts | None" = None  # worked out by somebody who made it from another tree

    @cached_property
    def facts(self) -> "TreeFacts":
        """What is worked out over all nodes."""
        if self.given is not None:
            return self.given
        below: dict[str | None, list[str]] = {}
        for path, node in self.nodes.items():
            below.setdefault(node.parent, []).append(path)
        ordered = {parent: self.sort_children(paths, self.nodes, self.entries) for parent, paths in below.items()}
        readers = frozenset(name for node in self.nodes.values() for name in node.readers)
        return TreeFacts(sum(map(digest_node, self.nodes.values())) % 2**256, ordered, readers, self._list_referring())

    @property
    def digest(self) -> bytes:
        """Of all nodes, regardless of their order; what they say is no part of it."""
        return self.facts.digest.to_bytes(32) if self.nodes else compute_digest([])

    @cached_property
    def structure(self) -> NodeTree:
        """As requests see it."""
        return NodeTree(self.nodes, self.ids, self.facts.below)

    @property
    def readers(self) -> frozenset[str]:
        """Every identity that a node's reader list names."""
        return self.facts.readers

    @property
    def referring(self) -> Iterable[PolicyEntry]:
        """The entries that may name contexts."""
        return self.facts.referring.values()

    @cached_property
    def positions(self) -> dict[str, int]:
        """Of its nodes, in the order of their definition."""
        return {path: position for position, path in enumerate(self.nodes)}

    def sort_children(
        self, paths: Iterable[str], nodes: Mapping[str, Node], entries: Mapping[str, PolicyEntry]
    ) -> tuple[str, ...]:
        """Siblings by the order that they name; then those of files as written, then stored ones as they were made."""
        positions = {} if self.base is None else self.base.positions

        def rank(path: str) -> tuple[int, int, str]:
            position, record = positions.get(path, len(positions)), entries[path].record
            return nodes[path].order, position, "" if record is None else record.id

        siblings = list(paths)
        return tuple(sorted(siblings, key=rank) if len(siblings) > 1 else siblings)

    def _list_referring(self) -> dict[str, PolicyEntry]:
        """Of stored nodes those that name contexts, of the few others all mappings, by path."""
        return {
            path: one
            for path, one in self.entries.items()
            if self.nodes[path].contexts or (one.record is None and isinstance(one.data, dict))
        }

    def add(self, node: Node, entry: PolicyEntry) -> None:
        """Add a node; of several with the same path the first stays."""
        if node.path in self.nodes:
            other = self.entries[node.path].location
            self.faults.append(entry.location.fault(f"the node {node.path!r} already exists in {other}"))
            return
        self.nodes[node.path] = node
        self.entries[node.path] = entry

    def take_over(self, node: Node, entry: PolicyEntry, path: str) -> None:
        """Put a stored node in the place of a file's with the same id; others of the file may be below it."""
        if node.path != path:
            self.faults.append(entry.location.fault(f"the node was adopted from a policy file and stays at {path!r}"))
            return
        self.nodes[path] = node  # its position in the order stays
        self.entries[path] = entry

    def index_ids(self) -> None:
        """Record the path of every id; an id must not be the path or the id of another node."""
        for path, node in self.nodes.items():
            if node.id != path and node.id in self.nodes:
                self._report_id(path, f"{node.id!r} is the path of another node")
            elif node.id in self.ids:
                self._report_id(path, f"{node.id!r} is already the id of {self.ids[node.id]}")
            else:
                self.ids[node.id] = path

    def _report_id(self, path: str, message: str) -> None:
        self.faults.append((self.entries[path].location / "id").fault(message))


def build_file_tree(roots: Iterable[PolicyEntry]) -> ContentTree:
    """The tree that policy files define."""
    tree = ContentTree()
    pending: list[tuple[str | None, PolicyEntry]] = [(None, root) for root in reversed(list(roots))]
    while pending:
        parent, entry = pending.pop()
        path = entry.alias if parent is None else f"{parent}/{entry.alias}"
        # A node may consist of its key only.
        data = {} if entry.data is None else entry.data
        shape, faults = entry.location.validate(NodeShape, data)
        tree.faults.extend([*_list_key_faults(entry.alias, entry.location), *faults, *list_reader_faults(entry)])
        shape = shape or NodeShape()
        node = _make_node(shape, path, parent)
        tree.add(node, entry)
        tree.contents.setdefault(node.id, _make_content(shape))
        inner = data.get("children") if isinstance(data, dict) else None
        children, faults = split_entries(inner, entry.location / "children")
        tree.faults.extend(faults)
        pending += [(path, child) for child in reversed(children)]
    tree.index_ids()
    return tree


def add_stored_nodes(
    files: ContentTree,
    stored: Mapping[str, PolicyEntry],
    former: ContentTree | None = None,
    adopted: frozenset[str] = frozenset(),
) -> ContentTree:
    """The files' tree with the nodes of a store added; these name their parents by id."""
    known = former.checked if former is not None else {}
    # An id that a file defines belongs to the file, even if the store had it first, unless it was adopted.
    hidden = files.ids.keys() - adopted
    checked = {id: check_node(one, known.get(id)) for id, one in stored.items() if id not in hidden}
    taken = adopted & checked.keys()
    contents = {id: one for id, one in files.contents.items() if id not in taken} if taken else files.contents
    tree = ContentTree(
        dict(files.nodes), {}, dict(files.entries), contents, [], files, stored, checked, adopted=adopted
    )
    for one in checked.values():
        tree.faults.extend(one.faults)
    usable = {identity: one for identity, one in checked.items() if not one.faults}
    for identity, path in _find_paths(usable, files, tree.faults).items():
        node = usable[identity]
        if find_node_key_fault(node.key) is not None:
            tree.faults.extend(_list_key_faults(node.key, node.entry.location / "key"))
        if identity in files.ids:
            tree.take_over(place_node(node.node, path), node.entry, files.ids[identity])
        else:
            tree.add(place_node(node.node, path), node.entry)
    tree.index_ids()
    return tree


def check_node(entry: PolicyEntry, known: CheckedNode | None) -> CheckedNode:
    if known is not None and known.entry is entry:
        return known
    shape, faults = entry.location.validate(StoredNodeShape, entry.data)
    if entry.record is None:
        faults.extend(list_reader_faults(entry))
    shape = shape or StoredNodeShape()
    return CheckedNode(
        entry, _make_node(shape, shape.key or entry.alias, None, entry.alias), shape.parent, tuple(faults)
    )


def place_node(node: Node, path: str) -> Node:
    parent = path.rpartition("/")[0] or None
    return Node(node.id, path, parent, node.type, node.title, node.contexts, node.merge, node.readers, node.order)


def _find_paths(stored: Mapping[str, CheckedNode], files: ContentTree, faults: list[Fault]) -> dict[str, str]:
    """The path of every stored node whose ancestors lead to a root."""
    paths: dict[str, str] = {}
    lost: dict[str, str] = {}  # nodes without a path, and why
    for identity, node in stored.items():
        lineage: dict[str, None] = {}
        above: str | None = identity
        while above is not None and above in stored and not (above in paths or above in lost or above in lineage):
            lineage[above] = None
            above = stored[above].parent
        path = _find_parent_path(above, stored, files, paths)
        for name in reversed(lineage):
            if path is None or path.count("/") + 2 > MAX_DEPTH:
                break
            path = paths[name] = f"{path}/{stored[name].key}" if path else stored[name].key
        if identity not in paths:
            reason = lost.get(above or "") or (CIRCULAR if above in lineage else MISSING if path is None else TOO_DEEP)
            lost |= {name: reason for name in (*lineage, identity) if name not in paths}
            faults.append((node.entry.location / "parent").fault(_describe_lost(node.parent, reason)))
    return paths


def _find_parent_path(
    parent: str | None, stored: Mapping[str, CheckedNode], files: ContentTree, paths: Mapping[str, str]
) -> str | None:
    """The path of a parent: "" above a root, None if there is no such node."""
    if parent is None:
        return ""
    if parent in paths:
        return paths[parent]
    return files.ids.get(parent) if parent not in stored else None


def _describe_lost(parent: str | None, reason: str) -> str:
    return f"there is no node with the id {quote(parent or '')}" if reason is MISSING else reason


def _list_key_faults(key: str, location: EntryLocation) -> list[Fault]:
    fault = find_node_key_fault(key)
    return [location.fault(fault)] if fault else []


def _make_node(shape: NodeShape, path: str, parent: str | None, identity: str | None = None) -> Node:
    return Node(
        id=identity or shape.id or path,
        path=path,
        parent=parent,
        type=sys.intern(shape.type),
        title=shape.title or title_from_alias(path.rpartition("/")[2]),
        contexts=tuple(shape.contexts),
        merge=shape.inherit == "merge",
        readers=tuple(shape.readers),
        order=shape.order,
    )


def digest_node(node: Node) -> int:
    return int.from_bytes(compute_digest(node))


def _make_content(shape: NodeShape) -> NodeContent:
    return NodeContent(shape.body, shape.properties, tuple(NodeLink(link.type, link.to) for link in shape.links))
