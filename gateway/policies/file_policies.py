"""Compiles a directory of policy files, or lists everything that is wrong with it."""

import time
from pathlib import Path

import msgspec

from gateway.domain.knowledge import NO_KNOWLEDGE, KnowledgeSet
from gateway.domain.snapshot import Snapshot
from gateway.errors import Fault, Faults
from gateway.policies.assembly import PolicySet, assemble
from gateway.policies.compiled_entry import COMPILED_KINDS, CompiledEntries, compile_entries
from gateway.policies.content_tree import build_file_tree
from gateway.policies.context_compiler import PolicySource
from gateway.policies.files import PolicyEntry, PolicyFiles, Sections
from gateway.policies.knowledge_files import KnowledgeReader
from gateway.policies.materials import NO_TOOL_LISTS, Materials, ToolLists
from gateway.policies.shapes import DocumentShape
from gateway.resources.registry import ResourceRegistry


class FilePolicies(msgspec.Struct, frozen=True):
    """The policy files, compiled but not yet assembled into a snapshot."""

    sections: Sections
    policies: PolicySet
    documents: dict[str, str]  # SHA-256 → text
    knowledge: KnowledgeSet = NO_KNOWLEDGE  # the same object until it changes

    def find_entry(self, kind: str, alias: str) -> PolicyEntry | None:
        """What stands under an alias, or about the node with an id."""
        if kind != "content":
            return self.sections[kind].get(alias)
        path = self.policies.tree.ids.get(alias)
        return None if path is None else self.policies.tree.entries[path]


def load_policies(
    directory: Path,
    registry: ResourceRegistry,
    materials: Materials,
    generation: int,
    servers: ToolLists = NO_TOOL_LISTS,
) -> Snapshot:
    """Read, validate and compile all policy files below a directory; raises Faults with every fault found."""
    return load_snapshot(PolicySource(directory, registry, materials, servers), generation)


def load_snapshot(source: PolicySource, generation: int) -> Snapshot:
    """The snapshot of the files that a source names; raises Faults with every fault found."""
    return assemble(FilePolicyReader(source).read().policies, generation, time.time())


class FilePolicyReader:
    """Reads a policy directory repeatedly; what has not changed is neither parsed nor compiled again."""

    def __init__(self, source: PolicySource) -> None:
        self._source = source
        self._files = PolicyFiles(source.directory)
        self._knowledge = KnowledgeReader()
        self._former: CompiledEntries = {kind: {} for kind in COMPILED_KINDS}

    def read(self) -> FilePolicies:
        """The policies in the files now; raises Faults if one of the files cannot be used."""
        sections, faults = self._files.read()
        documents, document_faults = _read_documents(sections)
        knowledge, knowledge_faults = self._knowledge.read(self._files.knowledge)
        faults += document_faults + knowledge_faults
        compiled = {
            kind: compile_entries(kind, sections[kind], self._source, documents, self._former[kind])
            for kind in COMPILED_KINDS
        }
        self._former = compiled
        policies = PolicySet(compiled, build_file_tree(sections["content"].values()))
        if faults:
            # The faults of the other files are reported too, so that a person can fix everything at once.
            raise Faults(sorted([*faults, *_list_faults(policies)], key=lambda one: (one.file, one.line)))
        return FilePolicies(sections, policies, documents, knowledge)


def _read_documents(sections: Sections) -> tuple[dict[str, str], list[Fault]]:
    documents: dict[str, str] = {}
    faults: list[Fault] = []
    for sha256, entry in sections["documents"].items():
        shape, own = entry.location.validate(DocumentShape, entry.data)
        faults += own
        documents[sha256] = shape.text if shape is not None else ""
    return documents, faults


def _list_faults(policies: PolicySet) -> list[Fault]:
    try:
        assemble(policies, 0, 0)
    except Faults as error:
        return error.faults
    return []
