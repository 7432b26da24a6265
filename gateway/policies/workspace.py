"""What workspaces have stored, compiled on top of the policy files."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import orjson
from msgspec.structs import replace

from gateway.domain.node_tree import NodeTree
from gateway.domain.record import Record, RecordKey
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.policies.assembly import PolicySet, assemble
from gateway.policies.compiled_entry import COMPILED_KINDS, CompiledEntries, CompiledEntry, compile_entries
from gateway.policies.content_tree import ContentTree, add_stored_nodes
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import FilePolicies
from gateway.policies.files import SECTIONS, EntryLocation, PolicyEntry, Sections
from gateway.policies.node_records import CONTENT, format_link, outline_record
from gateway.policies.tree_update import update_tree
from gateway.strict_yaml import YamlDocument

ADOPTED = "adopted"  # the kind of the records that say which stored objects take over from a file's
ADOPTED_KINDS = (*COMPILED_KINDS, "content")
AdoptedName = tuple[str, str]  # kind, alias; of a node its id

# (kind, alias) → data as in a policy file, or a stored version; None: deleted
Changes = Mapping[tuple[str, str], Any | None]
FindRecord = Callable[[str], Record | None]  # the current record of a node


def read_upload_size(key: RecordKey, body: bytes | None) -> int:
    """The bytes that an upload takes besides its record; 0 for other objects."""
    if key.kind != "documents" or body is None:
        return 0
    data: Any = orjson.loads(body)
    size = data.get("size") if isinstance(data, dict) else None
    return size if isinstance(size, int) else 0


class KindTotal(NamedTuple):
    """What a workspace has stored of one kind."""

    records: int = 0
    bytes: int = 0
    uploaded: int = 0  # bytes of documents as they were sent

    def add(self, record: Record, sign: int) -> "KindTotal":
        body = record.body
        if body is None:
            return self
        uploaded = read_upload_size(record.key, body)
        return KindTotal(self.records + sign, self.bytes + sign * record.size, self.uploaded + sign * uploaded)


StoredNodes = dict[str, PolicyEntry]  # outlines by id, in the order of creation; never changed once it is finished
NO_NODES: StoredNodes = {}


class NodeUpdate:
    """The stored nodes of a workspace while changes are applied."""

    def __init__(self, former: StoredNodes) -> None:
        self._former, self._nodes = former, former
        self._sorted = True

    def apply(self, record: Record) -> None:
        """Take a record over, unless it says the same about the tree as the one before it."""
        id, known = record.key.alias, self._nodes.get(record.key.alias)
        if known is not None and known.record is not None and known.record.id == record.id:
            if known.record.body == record.body:
                return
        elif known is None and record.body is None:
            return
        if self._nodes is self._former:
            self._nodes = dict(self._former)
        if record.body is None:
            del self._nodes[id]
            return
        if known is None or known.record is None or known.record.id != record.id:
            last = next(reversed(self._nodes.values()), None)
            self._sorted &= last is None or last.record is None or last.record.id <= record.id
        self._nodes[id] = make_stored_entry(CONTENT, id, orjson.loads(record.body), record)

    def finish(self) -> StoredNodes:
        """The nodes; the former ones if nothing about the tree has changed."""
        if self._sorted:
            return self._nodes
        return dict(sorted(self._nodes.items(), key=lambda pair: pair[1].record.id if pair[1].record else ""))


class StoredPolicies(msgspec.Struct, frozen=True):
    """The current records of all workspaces, each parsed once."""

    by_kind: Mapping[str, Mapping[RecordKey, Record]] = msgspec.field(default_factory=dict)
    parsed: Mapping[str, Mapping[RecordKey, PolicyEntry]] = {}  # by workspace; policies only
    totals: Mapping[str, Mapping[str, KindTotal]] = msgspec.field(default_factory=dict)  # by workspace and kind
    nodes: Mapping[str, StoredNodes] = msgspec.field(default_factory=dict)  # by workspace

    def records(self) -> Iterator[Record]:
        """Every record of every kind."""
        for records in self.by_kind.values():
            yield from records.values()

    def list_records(self, kind: str) -> Iterable[Record]:
        """The records of a kind in all workspaces."""
        return self.by_kind.get(kind, {}).values()

    def list_adopted(self, workspace: str) -> frozenset[AdoptedName]:
        """The stored objects of a workspace that take over from a file's."""
        marks = (key.alias.partition("/") for key in self.by_kind.get(ADOPTED, ()) if key.workspace == workspace)
        return frozenset((kind, alias) for kind, _, alias in marks)

    def list_users(self) -> frozenset[str]:
        """The workspaces that have stored policies."""
        own = (*self.parsed.items(), *self.nodes.items())
        return frozenset(name for name, entries in own if entries)

    def differs(self, other: "StoredPolicies", workspace: str) -> bool:
        """Whether a workspace may have other policies than in a state before or after this one."""
        same = self.parsed.get(workspace) is other.parsed.get(workspace)
        marks = self.by_kind.get(ADOPTED) is other.by_kind.get(ADOPTED)
        return not (same and marks and self.nodes.get(workspace) is other.nodes.get(workspace))

    def apply(self, changed: Iterable[Record]) -> "StoredPolicies":
        """The state after changes; kinds and workspaces that they do not touch are shared with this one."""
        by_kind: dict[str, dict[RecordKey, Record]] = {}
        parsed: dict[str, dict[RecordKey, PolicyEntry]] = {}
        totals: dict[str, dict[str, KindTotal]] = {}
        nodes: dict[str, NodeUpdate] = {}
        for record in map(outline_record, changed):
            workspace, kind, alias = record.key
            records = by_kind.setdefault(kind, dict(self.by_kind.get(kind, {})))
            own = totals.setdefault(workspace, dict(self.totals.get(workspace, {})))
            former = records.get(record.key)
            total = own.get(kind, KindTotal())
            own[kind] = (total if former is None else total.add(former, -1)).add(record, 1)
            if record.body is None:
                records.pop(record.key, None)
            else:
                records[record.key] = record
            if kind == CONTENT:
                if workspace not in nodes:
                    nodes[workspace] = NodeUpdate(self.nodes.get(workspace, NO_NODES))
                nodes[workspace].apply(record)
                continue
            if kind not in SECTIONS:
                continue  # keys and drafts are no policies
            entries = parsed.setdefault(workspace, dict(self.parsed.get(workspace, {})))
            if record.body is None:
                entries.pop(record.key, None)
            else:
                entries[record.key] = make_stored_entry(kind, alias, orjson.loads(record.body), record)
        trees = {name: one.finish() for name, one in nodes.items()}
        return StoredPolicies(
            {**self.by_kind, **by_kind}, {**self.parsed, **parsed}, {**self.totals, **totals}, {**self.nodes, **trees}
        )

    def entries(self, workspace: str) -> Sections:
        """By kind and alias, in the order of creation, which is the same on every replica."""
        sections: Sections = {section: {} for section in SECTIONS}
        entries = self.parsed.get(workspace, {}).values()
        for entry in sorted(entries, key=lambda one: one.record.id if one.record is not None else ""):
            assert entry.record is not None
            sections[entry.record.key.kind][entry.alias] = entry
        sections[CONTENT] = self.nodes.get(workspace, NO_NODES)
        return sections

    def preview_entries(self, workspace: str, changes: Changes) -> Sections:
        """The entries as they would be after changes."""
        sections = self.entries(workspace)
        if any(kind == CONTENT for kind, _ in changes):
            sections[CONTENT] = dict(sections[CONTENT])
        for (kind, alias), data in changes.items():
            if data is None:
                sections[kind].pop(alias, None)
            elif isinstance(data, Record):
                sections[kind][alias] = make_stored_entry(kind, alias, orjson.loads(data.body or b"{}"), data)
            else:
                sections[kind][alias] = make_stored_entry(kind, alias, data, None)
        return sections


class Workspace(msgspec.Struct, frozen=True):
    """One workspace: its own compiled entries, and its snapshot once they have been assembled with the files'."""

    contexts: Mapping[str, CompiledEntry]  # its own, without those of files
    own: Sections
    policies: PolicySet
    snapshot: Snapshot = EMPTY_SNAPSHOT

    @classmethod
    def build(
        cls,
        own: Sections,
        files: FilePolicies,
        source: PolicySource,
        former: "Workspace | None",
        adopted: frozenset[AdoptedName] = frozenset(),
    ) -> "Workspace":
        """Compile what is stored; results of the `former` state are reused where nothing can differ.

        An alias that a file defines belongs to the file, even if the store had it first, unless it was adopted.
        """
        documents = {**_read_texts(own), **files.documents}
        compiled: CompiledEntries = {}
        for kind in COMPILED_KINDS:
            known = former.policies.compiled[kind] if former is not None else {}
            shared = files.policies.compiled[kind]
            free = {
                alias: entry
                for alias, entry in own[kind].items()
                if alias not in shared or ((kind, alias) in adopted and not is_mandatory(shared[alias].entry))
            }
            compiled[kind] = compile_entries(kind, free, source, documents, known)
        merged = {kind: {**files.policies.compiled[kind], **compiled[kind]} for kind in COMPILED_KINDS}
        tree = _build_tree(own, files, former.policies.tree if former is not None else None, adopted)
        return cls(compiled["contexts"], own, PolicySet(merged, tree))

    @property
    def is_empty(self) -> bool:
        return not any(self.own.values())

    def assemble(self, generation: int, now: float) -> "Workspace":
        """The same workspace with its snapshot; raises Faults."""
        return Workspace(self.contexts, self.own, self.policies, assemble(self.policies, generation, now))

    @property
    def link_count(self) -> int:
        """The URLs that its own contexts name."""
        return len({link.url for one in self.contexts.values() for link in (one.links or {}).values()})

    def says_the_same(self, former: "Workspace") -> bool:
        """Whether its snapshot would be the former's: nothing but documents that no context uses was changed."""
        if former.policies.tree is not self.policies.tree:
            return False
        return all(
            known.keys() == own.keys() and all(known[alias] is own[alias] for alias in own)
            for known, own in (
                (former.policies.compiled[kind], self.policies.compiled[kind]) for kind in COMPILED_KINDS
            )
        )

    def replace_entries(self, own: Sections) -> "Workspace":
        """The same policies and the same snapshot, with other entries that are no part of it."""
        return replace(self, own=own)

    def replace_generation(self, number: int, former: "Workspace | None") -> "Workspace":
        """The same workspace as part of a generation, in place of the `former` one."""
        return replace(self, snapshot=self.snapshot.follow(former.snapshot if former is not None else None, number))

    def entries(self, files: FilePolicies, find_record: FindRecord) -> "WorkspaceEntries":
        """Every object by kind and alias; nodes are listed one by one under their ids."""
        return WorkspaceEntries(self, files, find_record)

    def list_entries(self, kind: str, files: FilePolicies) -> dict[str, PolicyEntry]:
        """The objects of a kind by alias."""
        if kind == "documents":
            return {**self.own["documents"], **files.sections["documents"]}
        return {alias: compiled.entry for alias, compiled in self.policies.compiled[kind].items()}


class NodeEntries(Mapping[str, PolicyEntry]):
    """Nodes by id as objects: stored ones without what they say, with the record that is current when one looks."""

    def __init__(self, tree: ContentTree, find_record: FindRecord) -> None:
        self._tree, self._find_record = tree, find_record

    @property
    def structure(self) -> NodeTree:
        return self._tree.structure

    def __getitem__(self, id: str) -> PolicyEntry:
        tree = self._tree
        path = tree.ids[id]
        node, entry = tree.nodes[path], tree.entries[path]
        data = {
            "id": node.id,
            "key": path.rpartition("/")[2],
            "parent": None if node.parent is None else tree.nodes[node.parent].id,
            "title": node.title,
            "type": node.type,
            "order": node.order,
            "contexts": list(node.contexts),
            "inherit": "merge" if node.merge else "nearest",
            "readers": list(node.readers),
        }
        if entry.record is not None:
            return PolicyEntry(id, entry.location, data, self._find_record(id) or entry.record)
        content = tree.contents[id]
        links = [format_link(link) for link in content.links]
        said = {"body": content.body, "properties": dict(content.properties), "links": links}
        return PolicyEntry(id, entry.location, data | said)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree.ids)

    def __len__(self) -> int:
        return len(self._tree.ids)


class WorkspaceEntries(Mapping[str, Mapping[str, PolicyEntry]]):
    """A workspace's objects by kind; a kind is collected when it is first asked for."""

    def __init__(self, workspace: Workspace, files: FilePolicies, find_record: FindRecord) -> None:
        self._workspace, self._files = workspace, files
        self._collected: dict[str, dict[str, PolicyEntry]] = {}
        self.nodes = NodeEntries(workspace.policies.tree, find_record)

    def __getitem__(self, kind: str) -> Mapping[str, PolicyEntry]:
        if kind not in SECTIONS:
            raise KeyError(kind)
        if kind == CONTENT:
            return self.nodes
        if kind not in self._collected:
            self._collected[kind] = self._workspace.list_entries(kind, self._files)
        return self._collected[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(SECTIONS)

    def __len__(self) -> int:
        return len(SECTIONS)


def make_stored_entry(kind: str, alias: str, data: Any, record: Record | None) -> PolicyEntry:
    """A stored object as the compiler takes it; its faults name the kind and the alias in place of a file."""
    return PolicyEntry(alias, EntryLocation(YamlDocument(f"{kind}/{alias}", data, {}), ()), data, record)


def _read_texts(own: Sections) -> dict[str, str]:
    return {sha256: str(entry.data.get("text", "")) for sha256, entry in own["documents"].items()}


def is_mandatory(entry: PolicyEntry) -> bool:
    """Whether a file makes something in the entry mandatory: what an operator prescribes cannot be adopted."""
    data = entry.data if isinstance(entry.data, dict) else {}
    resources = data.get("resources")
    inner = resources.values() if isinstance(resources, dict) else ()
    return any(isinstance(one, dict) and one.get("mandatory") is True for one in (data, *inner))


def _build_tree(
    own: Sections, files: FilePolicies, former: ContentTree | None, adopted: frozenset[AdoptedName]
) -> ContentTree:
    base, stored = files.policies.tree, own[CONTENT]
    taken = frozenset(id for kind, id in adopted if kind == CONTENT and id in base.ids)
    if former is not None and former.base is base and former.stored is stored and former.adopted == taken:
        return former
    if not stored:
        return base
    updated = update_tree(former, stored) if former is not None and former.base is base and not taken else None
    return updated if updated is not None else add_stored_nodes(base, stored, former, taken)
