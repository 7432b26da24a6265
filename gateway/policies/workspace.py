"""What workspaces have stored, compiled on top of the policy files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from gateway.domain.record import Record, RecordKey
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.policies.assembly import PolicySet, assemble
from gateway.policies.compiled_entry import COMPILED_KINDS, CompiledEntries, CompiledEntry, compile_entries
from gateway.policies.content_tree import ContentTree, add_stored_nodes
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import FilePolicies
from gateway.policies.files import SECTIONS, EntryLocation, PolicyEntry, Sections
from gateway.strict_yaml import YamlDocument

# (kind, alias) → data as in a policy file, or a stored version; None: deleted
Changes = Mapping[tuple[str, str], Any | None]


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
        return KindTotal(self.records + sign, self.bytes + sign * len(body), self.uploaded + sign * uploaded)


@dataclass(frozen=True, slots=True)
class StoredPolicies:
    """The current records of all workspaces, each parsed once."""

    by_kind: Mapping[str, Mapping[RecordKey, Record]] = field(default_factory=dict)
    parsed: Mapping[str, Mapping[RecordKey, PolicyEntry]] = field(default_factory=dict)  # by workspace; policies only
    totals: Mapping[str, Mapping[str, KindTotal]] = field(default_factory=dict)  # by workspace and kind

    @property
    def workspaces(self) -> list[str]:
        return list(self.parsed)

    def records(self) -> Iterator[Record]:
        """Every record of every kind."""
        for records in self.by_kind.values():
            yield from records.values()

    def list_records(self, kind: str) -> Iterable[Record]:
        """The records of a kind in all workspaces."""
        return self.by_kind.get(kind, {}).values()

    def list_users(self) -> frozenset[str]:
        """The workspaces that have stored policies."""
        return frozenset(name for name, entries in self.parsed.items() if entries)

    def apply(self, changed: Iterable[Record]) -> "StoredPolicies":
        """The state after changes; kinds and workspaces that they do not touch are shared with this one."""
        by_kind: dict[str, dict[RecordKey, Record]] = {}
        parsed: dict[str, dict[RecordKey, PolicyEntry]] = {}
        totals: dict[str, dict[str, KindTotal]] = {}
        for record in changed:
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
            if kind not in SECTIONS:
                continue  # keys and drafts are no policies
            entries = parsed.setdefault(workspace, dict(self.parsed.get(workspace, {})))
            if record.body is None:
                entries.pop(record.key, None)
            else:
                entries[record.key] = make_stored_entry(kind, alias, orjson.loads(record.body), record)
        return StoredPolicies({**self.by_kind, **by_kind}, {**self.parsed, **parsed}, {**self.totals, **totals})

    def entries(self, workspace: str) -> Sections:
        """By kind and alias, in the order of creation, which is the same on every replica."""
        sections: Sections = {section: {} for section in SECTIONS}
        entries = self.parsed.get(workspace, {}).values()
        for entry in sorted(entries, key=lambda one: one.record.id if one.record is not None else ""):
            assert entry.record is not None
            sections[entry.record.key.kind][entry.alias] = entry
        return sections

    def preview_entries(self, workspace: str, changes: Changes) -> Sections:
        """The entries as they would be after changes."""
        sections = self.entries(workspace)
        for (kind, alias), data in changes.items():
            if data is None:
                sections[kind].pop(alias, None)
            elif isinstance(data, Record):
                sections[kind][alias] = make_stored_entry(kind, alias, orjson.loads(data.body or b"{}"), data)
            else:
                sections[kind][alias] = make_stored_entry(kind, alias, data, None)
        return sections


@dataclass(frozen=True, slots=True)
class Workspace:
    """One workspace: its own compiled entries, and its snapshot once they have been assembled with the files'."""

    contexts: Mapping[str, CompiledEntry]  # its own, without those of files
    own: Sections
    policies: PolicySet
    snapshot: Snapshot = EMPTY_SNAPSHOT

    @classmethod
    def build(cls, own: Sections, files: FilePolicies, source: PolicySource, former: "Workspace | None") -> "Workspace":
        """Compile what is stored; results of the `former` state are reused where nothing can differ."""
        documents = {**_read_texts(own), **files.documents}
        compiled: CompiledEntries = {}
        for kind in COMPILED_KINDS:
            known = former.policies.compiled[kind] if former is not None else {}
            shared = files.policies.compiled[kind]
            # An alias that a file defines belongs to the file, even if the store had it first.
            free = {alias: entry for alias, entry in own[kind].items() if alias not in shared}
            compiled[kind] = compile_entries(kind, free, source, documents, known)
        merged = {kind: {**files.policies.compiled[kind], **compiled[kind]} for kind in COMPILED_KINDS}
        tree = _build_tree(own, files, former.policies.tree if former is not None else None)
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

    def replace_generation(self, number: int) -> "Workspace":
        """The same workspace as part of a generation."""
        return replace(self, snapshot=replace(self.snapshot, generation=number))

    def entries(self, files: FilePolicies) -> "WorkspaceEntries":
        """Every object by kind and alias; nodes are listed one by one under their ids."""
        return WorkspaceEntries(self, files)

    def list_entries(self, kind: str, files: FilePolicies) -> dict[str, PolicyEntry]:
        """The objects of a kind by alias."""
        if kind == "content":
            return {node.id: self._make_node_entry(path) for path, node in self.policies.tree.nodes.items()}
        if kind == "documents":
            return {**self.own["documents"], **files.sections["documents"]}
        return {alias: compiled.entry for alias, compiled in self.policies.compiled[kind].items()}

    def _make_node_entry(self, path: str) -> PolicyEntry:
        tree = self.policies.tree
        node, entry = tree.nodes[path], tree.entries[path]
        data = {
            "id": node.id,
            "key": path.rpartition("/")[2],
            "parent": None if node.parent is None else tree.nodes[node.parent].id,
            "title": node.title,
            "type": node.type,
            "body": node.body,
            "contexts": list(node.contexts),
            "inherit": "merge" if node.merge else "nearest",
            "readers": list(node.readers),
            "links": list(node.links),
        }
        return PolicyEntry(node.id, entry.location, data, entry.record)


class WorkspaceEntries(Mapping[str, Mapping[str, PolicyEntry]]):
    """A workspace's objects by kind; a kind is collected when it is first asked for, as there may be many nodes."""

    def __init__(self, workspace: Workspace, files: FilePolicies) -> None:
        self._workspace, self._files = workspace, files
        self._collected: dict[str, dict[str, PolicyEntry]] = {}

    def __getitem__(self, kind: str) -> dict[str, PolicyEntry]:
        if kind not in SECTIONS:
            raise KeyError(kind)
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


def _build_tree(own: Sections, files: FilePolicies, former: ContentTree | None) -> ContentTree:
    taken = files.policies.tree.ids
    stored = [entry for entry in own["content"].values() if entry.alias not in taken]
    return add_stored_nodes(files.policies.tree, stored, former) if stored else files.policies.tree
