"""What a workspace has stored, compiled on top of the policy files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gateway.domain.record import Record, RecordKey
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.policies.assembly import PolicySet, assemble
from gateway.policies.compiled_entry import NAMED, CompiledEntry, Parts, parts_of
from gateway.policies.content_tree import ContentTree, with_stored
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import FilePolicies
from gateway.policies.files import SECTIONS, EntryLocation, PolicyEntry, Sections
from gateway.strict_yaml import YamlDocument


@dataclass(frozen=True, slots=True)
class StoredPolicies:
    """The current records of all workspaces, parsed once each."""

    records: Mapping[RecordKey, Record] = field(default_factory=dict)
    parsed: Mapping[str, Mapping[RecordKey, PolicyEntry]] = field(default_factory=dict)  # by workspace; policies only

    @property
    def workspaces(self) -> list[str]:
        return list(self.parsed)

    def with_changes(self, changed: Iterable[Record]) -> "StoredPolicies":
        """The state after changes; workspaces that they do not touch are shared with this one."""
        records, parsed = dict(self.records), dict(self.parsed)
        touched: dict[str, dict[RecordKey, PolicyEntry]] = {}
        for record in changed:
            own = touched.setdefault(record.key.workspace, dict(parsed.get(record.key.workspace, {})))
            if record.body is None:
                records.pop(record.key, None)
                own.pop(record.key, None)
            else:
                records[record.key] = record
                if record.key.kind in SECTIONS:
                    own[record.key] = entry_of(record.key.kind, record.key.alias, orjson.loads(record.body), record)
        return StoredPolicies(records, parsed | touched)

    def of_kind(self, kind: str) -> Iterable[Record]:
        return [record for key, record in self.records.items() if key.kind == kind]

    def entries(self, workspace: str) -> Sections:
        """By kind and alias, in the order in which they were made: it is the same on every node."""
        sections: Sections = {section: {} for section in SECTIONS}
        entries = self.parsed.get(workspace, {}).values()
        for entry in sorted(entries, key=lambda one: one.record.id if one.record is not None else ""):
            assert entry.record is not None
            sections[entry.record.key.kind][entry.alias] = entry
        return sections

    def tried(self, workspace: str, changes: Mapping[tuple[str, str], Any | None]) -> Sections:
        """The entries with changes laid over them."""
        sections = self.entries(workspace)
        for (kind, alias), data in changes.items():
            if data is None:
                sections[kind].pop(alias, None)
            else:
                sections[kind][alias] = entry_of(kind, alias, data, None)
        return sections


@dataclass(frozen=True, slots=True)
class Workspace:
    """One workspace: its own parts, and its snapshot once they have been put together with the files'."""

    contexts: Mapping[str, CompiledEntry]  # its own, without those of files
    own: Sections
    policies: PolicySet
    snapshot: Snapshot = EMPTY_SNAPSHOT

    @classmethod
    def build(cls, own: Sections, files: FilePolicies, source: PolicySource, former: "Workspace | None") -> "Workspace":
        """Compile what is stored; a part that the `former` state holds is taken from there if nothing can differ."""
        documents = {**_texts(own), **files.documents}
        mine: Parts = {}
        for kind in NAMED:
            known = former.policies.parts[kind] if former is not None else {}
            shared = files.policies.parts[kind]
            # An alias that a file has taken is the file's, whoever had it before.
            free = {alias: entry for alias, entry in own[kind].items() if alias not in shared}
            mine[kind] = parts_of(kind, free, source, documents, known)
        parts = {kind: {**files.policies.parts[kind], **mine[kind]} for kind in NAMED}
        tree = _tree(own, files, former.policies.tree if former is not None else None)
        return cls(mine["contexts"], own, PolicySet(parts, tree))

    @property
    def empty(self) -> bool:
        return not any(self.own.values())

    def assembled(self, generation: int, now: float) -> "Workspace":
        """With its snapshot; raises Faults."""
        return Workspace(self.contexts, self.own, self.policies, assemble(self.policies, generation, now))

    def entries(self, files: FilePolicies) -> "Entries":
        """Every object by kind and alias, nodes one by one under their id."""
        return Entries(self, files)

    def of_kind(self, kind: str, files: FilePolicies) -> dict[str, PolicyEntry]:
        """The objects of a kind by alias."""
        if kind == "content":
            return {node.id: self._node(path) for path, node in self.policies.tree.nodes.items()}
        if kind == "documents":
            return {**self.own["documents"], **files.sections["documents"]}
        return {alias: part.entry for alias, part in self.policies.parts[kind].items()}

    def _node(self, path: str) -> PolicyEntry:
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
        return PolicyEntry(node.id, entry.place, data, entry.record)


class Entries(Mapping[str, Mapping[str, PolicyEntry]]):
    """A workspace's objects by kind; each kind is gone through when it is asked for, as there may be many nodes."""

    def __init__(self, workspace: Workspace, files: FilePolicies) -> None:
        self._workspace, self._files = workspace, files
        self._found: dict[str, dict[str, PolicyEntry]] = {}

    def __getitem__(self, kind: str) -> dict[str, PolicyEntry]:
        if kind not in SECTIONS:
            raise KeyError(kind)
        if kind not in self._found:
            self._found[kind] = self._workspace.of_kind(kind, self._files)
        return self._found[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(SECTIONS)

    def __len__(self) -> int:
        return len(SECTIONS)


def entry_of(kind: str, alias: str, data: Any, record: Record | None) -> PolicyEntry:
    """Something stored, as the compiler wants it; its faults are told by kind and alias."""
    return PolicyEntry(alias, EntryLocation(YamlDocument(f"{kind}/{alias}", data, {}), ()), data, record)


def _texts(own: Sections) -> dict[str, str]:
    return {sha256: str(entry.data.get("text", "")) for sha256, entry in own["documents"].items()}


def _tree(own: Sections, files: FilePolicies, former: ContentTree | None) -> ContentTree:
    taken = files.policies.tree.ids
    stored = [entry for entry in own["content"].values() if entry.alias not in taken]
    return with_stored(files.policies.tree, stored, former) if stored else files.policies.tree
