"""Compiles the content tree: nested in policy files, node by node in a store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gateway.domain.node import Node
from gateway.errors import Fault
from gateway.policies.compiled_entry import digest_of
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.files import EntryLocation, PolicyEntry, entries
from gateway.policies.shapes import NodeShape, StoredNodeShape, node_key_fault
from gateway.validation import validate


@dataclass(frozen=True, slots=True)
class Shaped:
    """A stored node, checked by itself."""

    entry: PolicyEntry
    shape: StoredNodeShape | None
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class ContentTree:
    """A content tree; faults are gathered, not raised."""

    nodes: dict[str, Node] = field(default_factory=dict)  # by path
    ids: dict[str, str] = field(default_factory=dict)  # id → path
    entries: dict[str, PolicyEntry] = field(default_factory=dict)  # path → where it is written
    faults: list[Fault] = field(default_factory=list)
    base: "ContentTree | None" = None  # the files' tree that stored nodes hang in
    shaped: Mapping[str, Shaped] = field(default_factory=dict)  # stored nodes by id

    @cached_property
    def digest(self) -> bytes:
        """Of what the tree says, whatever order it says it in."""
        return digest_of([self.nodes[path] for path in sorted(self.nodes)])

    @cached_property
    def readers(self) -> frozenset[str]:
        """Every identity that a node's reader list names."""
        return frozenset(name for node in self.nodes.values() for name in node.readers)

    def holds(self, base: "ContentTree", stored: Sequence[PolicyEntry]) -> bool:
        """Whether it is made of exactly these."""
        if self.base is not base or len(stored) != len(self.shaped):
            return False
        return all(mine.entry is entry for mine, entry in zip(self.shaped.values(), stored, strict=True))

    def add(self, node: Node, entry: PolicyEntry) -> None:
        """Take a node in; of several with one path or id the first stays."""
        if node.path in self.nodes:
            other = self.entries[node.path].place
            self.faults.append(entry.place.fault(f"there is a node {node.path!r} already, in {other}"))
            return
        self.nodes[node.path] = node
        self.entries[node.path] = entry


def tree_of_files(roots: Iterable[PolicyEntry]) -> ContentTree:
    """The tree that policy files write."""
    tree = ContentTree()
    waiting: list[tuple[str | None, PolicyEntry]] = [(None, root) for root in reversed(list(roots))]
    while waiting:
        parent, entry = waiting.pop()
        path = entry.alias if parent is None else f"{parent}/{entry.alias}"
        # A node may be written as nothing but its key.
        data = {} if entry.data is None else entry.data
        shape, faults = validate(NodeShape, data, entry.place.document, entry.place.keys)
        tree.faults.extend([*_key_faults(entry.alias, entry.place), *faults])
        tree.add(_node(shape or NodeShape(), path, parent), entry)
        given = data.get("children") if isinstance(data, dict) else None
        children, faults = entries(given, entry.place / "children")
        tree.faults.extend(faults)
        waiting += [(path, child) for child in reversed(children)]
    _number(tree)
    return tree


def with_stored(files: ContentTree, stored: Sequence[PolicyEntry], former: ContentTree | None = None) -> ContentTree:
    """The files' tree with the nodes of a store hung into it; these name their parents by id."""
    if former is not None and former.holds(files, stored):
        return former
    known = former.shaped if former is not None else {}
    shaped = {entry.alias: _shaped(entry, known.get(entry.alias)) for entry in stored}
    tree = ContentTree(dict(files.nodes), {}, dict(files.entries), [], files, shaped)
    waiting: dict[str, tuple[PolicyEntry, StoredNodeShape]] = {}
    for one in shaped.values():
        tree.faults.extend(one.faults)
        if one.shape is not None:
            waiting[one.entry.alias] = one.entry, one.shape
    paths = _paths(waiting, files, tree.faults)
    for identity in sorted(paths, key=lambda one: paths[one]):
        entry, shape = waiting[identity]
        parent = paths[identity].rpartition("/")[0] or None
        node = _node(shape, paths[identity], parent, identity)
        tree.faults.extend(_key_faults(_key(identity, shape), entry.place / "key"))
        tree.add(node, entry)
    _number(tree)
    return tree


def _shaped(entry: PolicyEntry, known: Shaped | None) -> Shaped:
    if known is not None and known.entry is entry:
        return known
    shape, faults = validate(StoredNodeShape, entry.data, entry.place.document, entry.place.keys)
    return Shaped(entry, shape, tuple(faults))


def _paths(
    stored: Mapping[str, tuple[PolicyEntry, StoredNodeShape]], files: ContentTree, faults: list[Fault]
) -> dict[str, str]:
    """The path of every stored node whose line of parents ends at a root."""
    paths: dict[str, str] = {}
    for identity in stored:
        line: list[str] = []
        above: str | None = identity
        while above is not None and above in stored and above not in paths and above not in line:
            line.append(above)
            above = stored[above][1].parent
        base = _base(above, line, stored, files, paths)
        if base is None:
            entry, shape = stored[identity]
            faults.append((entry.place / "parent").fault(_lost(shape.parent, above in line)))
            continue
        for name in reversed(line):
            base = f"{base}/{_key(name, stored[name][1])}" if base else _key(name, stored[name][1])
            paths[name] = base
    return paths


def _base(
    above: str | None,
    line: list[str],
    stored: Mapping[str, tuple[PolicyEntry, StoredNodeShape]],
    files: ContentTree,
    paths: Mapping[str, str],
) -> str | None:
    """The path below which a line of nodes hangs: "" for a root, None if there is no such place."""
    if above is None:
        return ""
    if above in paths:
        return paths[above]
    return files.ids.get(above) if above not in stored else None


def _lost(parent: str | None, circular: bool) -> str:
    return "would make the node its own ancestor" if circular else f"there is no node with the id {parent!r}"


def _key(identity: str, shape: StoredNodeShape) -> str:
    return shape.key or identity


def _key_faults(key: str, place: EntryLocation) -> list[Fault]:
    wrong = node_key_fault(key)
    return [place.fault(wrong)] if wrong else []


def _node(shape: NodeShape, path: str, parent: str | None, identity: str | None = None) -> Node:
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


def _number(tree: ContentTree) -> None:
    """Note the path of every id; an id must not be taken for another node."""
    for path, node in tree.nodes.items():
        place = tree.entries[path].place / "id"
        if node.id != path and node.id in tree.nodes:
            tree.faults.append(place.fault(f"{node.id!r} is the path of another node"))
        elif node.id in tree.ids:
            tree.faults.append(place.fault(f"{node.id!r} is already the id of {tree.ids[node.id]}"))
        else:
            tree.ids[node.id] = path
