"""A directory of YAML files becomes one immutable Snapshot, or a list of everything that is wrong with it."""

import time
from dataclasses import dataclass
from pathlib import Path

from gateway.domain.snapshot import Snapshot
from gateway.errors import Fault, Faults
from gateway.policies.assembly import PolicySet, assemble
from gateway.policies.compiled_entry import NAMED, Parts, parts_of
from gateway.policies.content_tree import tree_of_files
from gateway.policies.context_compiler import Materials, PolicySource, TypeRegistry
from gateway.policies.files import PolicyFiles, Sections
from gateway.policies.shapes import DocumentShape
from gateway.validation import validate

__all__ = ["FilePolicies", "Materials", "PolicyReader", "TypeRegistry", "load_policies"]


@dataclass(frozen=True, slots=True)
class FilePolicies:
    """What the policy files say, compiled but not yet a snapshot."""

    sections: Sections
    policies: PolicySet
    documents: dict[str, str]  # texts by hash


def load_policies(directory: Path, registry: TypeRegistry, materials: Materials, generation: int) -> Snapshot:
    """Read, validate and compile all policy files below a directory; raises Faults with every fault found."""
    files = PolicyReader(PolicySource(directory, registry, materials)).read()
    return assemble(files.policies, generation, time.time())


class PolicyReader:
    """Reads a policy directory again and again; what has not changed is neither parsed nor compiled anew."""

    def __init__(self, source: PolicySource) -> None:
        self._source = source
        self._files = PolicyFiles(source.directory)
        self._former: Parts = {kind: {} for kind in NAMED}

    def read(self) -> FilePolicies:
        """What the files say now; raises Faults if one of them cannot be read."""
        sections, unreadable = self._files.read()
        documents, wrong = _documents(sections)
        parts = {kind: parts_of(kind, sections[kind], self._source, documents, self._former[kind]) for kind in NAMED}
        self._former = parts
        files = FilePolicies(sections, PolicySet(parts, tree_of_files(sections["content"].values())), documents)
        if unreadable or wrong:
            # What else is wrong is told along with it, so that a person corrects everything at once.
            raise Faults(sorted([*unreadable, *wrong, *_faults(files.policies)], key=lambda one: (one.file, one.line)))
        return files


def _documents(sections: Sections) -> tuple[dict[str, str], list[Fault]]:
    documents: dict[str, str] = {}
    faults: list[Fault] = []
    for sha256, entry in sections["documents"].items():
        shape, wrong = validate(DocumentShape, entry.data, entry.place.document, entry.place.keys)
        faults += wrong
        documents[sha256] = shape.text if shape is not None else ""
    return documents, faults


def _faults(policies: PolicySet) -> list[Fault]:
    try:
        assemble(policies, 0, 0)
    except Faults as found:
        return found.faults
    return []
