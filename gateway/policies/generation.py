"""What is served at one moment, and how the next generation is built from files and records."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gateway.domain.material import LinkMaterial
from gateway.domain.record import Record
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.errors import Faults
from gateway.policies.assembly import assemble
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import FilePolicies
from gateway.policies.shapes import find_reader_fault
from gateway.policies.workspace import Changes, StoredPolicies, Workspace

MOST_WARNINGS = 5  # reader lists that are named

log = logging.getLogger(__name__)


class LinkUse(NamedTuple):
    """A resource that uses an external link."""

    workspace: str  # "": the resource is in a file, which all workspaces share
    resource: str  # `context/resource`
    link: LinkMaterial


@dataclass(frozen=True, slots=True)
class PolicyGeneration:
    """Everything that is served at one moment; it is replaced as a whole."""

    number: int = 0
    files: FilePolicies | None = None  # None: nothing has been loaded yet
    base: Snapshot = EMPTY_SNAPSHOT  # for workspaces that have stored nothing
    stored: StoredPolicies = field(default_factory=StoredPolicies)
    workspaces: Mapping[str, Workspace] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)  # workspace → why its latest policies are not used
    warnings: Mapping[str, str] = field(default_factory=dict)  # workspace → what in its policies has no effect

    @property
    def loaded_files(self) -> FilePolicies:
        assert self.files is not None
        return self.files

    def links(self) -> dict[str, list[LinkUse]]:
        """The external links that policies name, by URL."""
        uses: dict[str, list[LinkUse]] = {}
        shared = {} if self.files is None else self.files.policies.compiled["contexts"]
        groups = [("", shared), *((name, one.contexts) for name, one in self.workspaces.items())]
        for workspace, contexts in groups:
            for compiled in contexts.values():
                for resource, link in (compiled.links or {}).items():
                    uses.setdefault(link.url, []).append(LinkUse(workspace, resource, link))
        return uses

    def has_expired(self, now: float) -> bool:
        """Whether something has become valid or expired since it was built."""
        # A workspace with an error keeps its former snapshot, whose time has passed for good.
        others = (one.snapshot for name, one in self.workspaces.items() if name not in self.errors)
        bounds = (snapshot.valid_until for snapshot in (self.base, *others))
        return any(bound is not None and bound <= now for bound in bounds)


class GenerationBuilder:
    """Builds generations. It takes milliseconds of CPU: not on the event loop."""

    def __init__(self, source: PolicySource, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock

    def apply_files(self, current: PolicyGeneration, files: FilePolicies) -> PolicyGeneration:
        """Everything with other files; raises their Faults. A workspace with faults keeps what it had."""
        number = current.number + 1
        base = assemble(files.policies, number, self._clock())
        fresh = replace(current, number=number, files=files, base=base)
        return self._build_workspaces(fresh, current.stored.workspaces)

    def apply_records(
        self, current: PolicyGeneration, records: Sequence[Record], *, complete: bool = False
    ) -> PolicyGeneration:
        """With changed records, or with `complete` ones, which replace all that were known."""
        touched = {record.key.workspace for record in records}
        if complete:
            touched |= {record.key.workspace for record in current.stored.records()}
        former = StoredPolicies() if complete else current.stored
        fresh = replace(current, number=current.number + 1, stored=former.apply(records))
        return self._build_workspaces(fresh, touched)

    def build_workspace(self, generation: PolicyGeneration, name: str, changes: Changes | None = None) -> Workspace:
        """A workspace with its stored policies and, if given, changes to them; not yet assembled."""
        entries = generation.stored.preview_entries(name, changes or {})
        return Workspace.build(entries, generation.loaded_files, self._source, generation.workspaces.get(name))

    def _build_workspaces(self, fresh: PolicyGeneration, names: Iterable[str]) -> PolicyGeneration:
        workspaces, errors, warnings = dict(fresh.workspaces), dict(fresh.errors), dict(fresh.warnings)
        for name in names:
            errors.pop(name, None)
            known = warnings.pop(name, None)
            try:
                workspace = self.build_workspace(fresh, name)
                if workspace.is_empty:
                    workspaces.pop(name, None)
                else:
                    workspaces[name] = workspace.assemble(fresh.number, self._clock())
                    if warning := describe_bare_readers(workspaces[name].snapshot):
                        warnings[name] = warning
                        if warning != known:
                            log.error("in the stored policies of workspace %r, %s", name, warning)
            except Faults as faults:
                errors[name] = str(faults)
                log.error("the stored policies of workspace %r are invalid and not in use:\n%s", name, faults)
        return replace(fresh, workspaces=workspaces, errors=errors, warnings=warnings)


def describe_bare_readers(snapshot: Snapshot) -> str | None:
    """The names in stored reader lists that earlier releases took for users, groups and keys alike; None: none."""
    if not any(map(find_reader_fault, snapshot.readers)):
        return None
    lists = [(f"resource {one.id}", one.readers) for one in snapshot.resources.values()]
    lists += [(f"node {one.path}", one.readers) for one in snapshot.nodes.values()]
    faults = ((place, find_reader_fault(name)) for place, names in lists for name in names)
    found = [f"{place}: {fault}" for place, fault in faults if fault is not None]
    more = f" (and {len(found) - MOST_WARNINGS} more)" if len(found) > MOST_WARNINGS else ""
    return f"bare names in `readers` name nobody: {'; '.join(found[:MOST_WARNINGS])}{more}"
