"""Compiles the content tree: nested in policy files, node by node in a store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gateway.domain.content_names import ContentNames
from gateway.domain.node import Node
from gateway.errors import Fault, quote
from gateway.policies.compiled_entry import compute_digest
from gateway.policies.context_compiler import list_reader_faults, title_from_alias
from gateway.policies.files import EntryLocation, PolicyEntry, split_entries
from gateway.policies.shapes import NodeShape, StoredNodeShape, find_node_key_fault

MAX_DEPTH = 64  # levels, as in policy files: paths of nodes grow with their depth
CIRCULAR = "would make the node its own ancestor"
MISSING = "there is no such node"
TOO_DEEP = f"would put the node more than {MAX_DEPTH} levels deep"


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """A stored node that was validated on its own."""

    entry: PolicyEntry
    shape: StoredNodeShape
    key: str  # the last segment of its path
    faults: tuple[Fault, ...]  # a node with faults has no place in the tree


@dataclass(frozen=True)
class ContentTree:
    """A content tree; faults are collected, not raised."""

    nodes: dict[str, Node] = field(default_factory=dict)  # by path
    ids: dict[str, str] = field(default_factory=dict)  # id → path
    entries: dict[str, PolicyEntry] = field(default_factory=dict)  # by path
    faults: list[Fault] = field(default_factory=list)
    base: "ContentTree | None" = None  # the files' tree, to which stored nodes were added
    checked: Mapping[str, CheckedNode] = field(default_factory=dict)  # stored nodes by id

    @cached_property
    def digest(self) -> bytes:
        """Of all nodes, regardless of their order."""
        return compute_digest([self.nodes[path] for path in sorted(self.nodes)])

    @cached_property
    def names(self) -> ContentNames:
        """Of its nodes, for whoever looks for them."""
        return ContentNames(self.nodes)

    @cached_property
    def readers(self) -> frozenset[str]:
        """Every identity that a node's reader list names."""
        return frozenset(name for node in self.nodes.values() for name in node.readers)

    def is_built_from(self, base: "ContentTree", stored: Sequence[PolicyEntry]) -> bool:
        """Whether it consists of exactly these."""
        if self.base is not base or len(stored) != len(self.checked):
            return False
        return all(own.entry is entry for own, entry in zip(self.checked.values(), stored, strict=True))

    def add(self, node: Node, entry: PolicyEntry) -> None:
        """Add a node; of several with the same path the first stays."""
        if node.path in self.nodes:
            other = self.entries[node.path].location
            self.faults.append(entry.location.fault(f"the node {node.path!r} already exists in {other}"))
            return
        self.nodes[node.path] = node
        self.entries[node.path] = entry

    def index_ids(self) -> None:
        """Record the path of every id; an id must not be the path or the id of another node."""
        for path, node in self.nodes.items():
            location = self.entries[path].location / "id"
            if node.id != path and node.id in self.nodes:
                self.faults.append(location.fault(f"{node.id!r} is the path of another node"))
            elif node.id in self.ids:
                self.faults.append(location.fault(f"{node.id!r} is already the id of {self.ids[node.id]}"))
            else:
                self.ids[node.id] = path


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
        tree.add(_make_node(shape or NodeShape(), path, parent), entry)
        inner = data.get("children") if isinstance(data, dict) else None
        children, faults = split_entries(inner, entry.location / "children")
        tree.faults.extend(faults)
        pending += [(path, child) for child in reversed(children)]
    tree.index_ids()
    return tree


def add_stored_nodes(
    files: ContentTree, stored: Sequence[PolicyEntry], former: ContentTree | None = None
) -> ContentTree:
    """The files' tree with the nodes of a store added; these name their parents by id."""
    if former is not None and former.is_built_from(files, stored):
        return former
    known = former.checked if former is not None else {}
    checked = {entry.alias: _check_node(entry, known.get(entry.alias)) for entry in stored}
    tree = ContentTree(dict(files.nodes), {}, dict(files.entries), [], files, checked)
    for one in checked.values():
        tree.faults.extend(one.faults)
    usable = {identity: one for identity, one in checked.items() if not one.faults}
    paths = _find_paths(usable, files, tree.faults)
    for identity in sorted(paths, key=lambda one: paths[one]):
        node, path = usable[identity], paths[identity]
        tree.faults.extend(_list_key_faults(node.key, node.entry.location / "key"))
        tree.add(_make_node(node.shape, path, path.rpartition("/")[0] or None, identity), node.entry)
    tree.index_ids()
    return tree


def _check_node(entry: PolicyEntry, known: CheckedNode | None) -> CheckedNode:
    if known is not None and known.entry is entry:
        return known
    shape, faults = entry.location.validate(StoredNodeShape, entry.data)
    if entry.record is None:
        faults.extend(list_reader_faults(entry))
    shape = shape or StoredNodeShape()
    return CheckedNode(entry, shape, shape.key or entry.alias, tuple(faults))


def _find_paths(stored: Mapping[str, CheckedNode], files: ContentTree, faults: list[Fault]) -> dict[str, str]:
    """The path of every stored node whose ancestors lead to a root."""
    paths: dict[str, str] = {}
    lost: dict[str, str] = {}  # nodes without a path, and why
    for identity, node in stored.items():
        lineage: dict[str, None] = {}
        above: str | None = identity
        while above is not None and above in stored and not (above in paths or above in lost or above in lineage):
            lineage[above] = None
            above = stored[above].shape.parent
        path = _find_parent_path(above, stored, files, paths)
        for name in reversed(lineage):
            if path is None or path.count("/") + 2 > MAX_DEPTH:
                break
            path = paths[name] = f"{path}/{stored[name].key}" if path else stored[name].key
        if identity not in paths:
            reason = lost.get(above or "") or (CIRCULAR if above in lineage else MISSING if path is None else TOO_DEEP)
            lost |= {name: reason for name in (*lineage, identity) if name not in paths}
            faults.append((node.entry.location / "parent").fault(_describe_lost(node.shape.parent, reason)))
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
        type=shape.type,
        title=shape.title or title_from_alias(path.rpartition("/")[2]),
        body=shape.body,
        contexts=tuple(shape.contexts),
        merge=shape.inherit == "merge",
        readers=tuple(shape.readers),
        links=tuple(shape.links),
    )
