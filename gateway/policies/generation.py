"""What is served at one moment, and how the next generation is built from files and records."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.domain.material import LinkMaterial
from gateway.domain.record import Record
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.domain.tool import ToolServerAddress
from gateway.errors import Faults
from gateway.policies.compiled_entry import CompiledEntry
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


class ServerUse(NamedTuple):
    """A resource that names an MCP server."""

    workspace: str  # "": the resource is in a file, which all workspaces share
    resource: str


class WorkspaceBuild(msgspec.Struct, frozen=True):
    """What a build came to: a workspace, or None if nothing is stored; with an error, it cannot be served."""

    workspace: Workspace | None = None
    error: str | None = None
    warning: str | None = None  # what in it has no effect


class PolicyGeneration(msgspec.Struct, frozen=True):
    """Everything that is served at one moment; it is replaced as a whole."""

    number: int = 0
    files: FilePolicies | None = None  # None: nothing has been loaded yet
    base: Snapshot = EMPTY_SNAPSHOT  # for workspaces that have stored nothing
    stored: StoredPolicies = msgspec.field(default_factory=StoredPolicies)
    workspaces: Mapping[str, Workspace] = msgspec.field(default_factory=dict)
    errors: Mapping[str, str] = msgspec.field(default_factory=dict)  # workspace → why its latest policies are not used
    faulty: Mapping[str, Workspace] = msgspec.field(default_factory=dict)  # what those with an error have stored
    unbuilt: frozenset[str] = frozenset()  # have stored policies, but were never built: they are not served yet
    warnings: Mapping[str, str] = msgspec.field(default_factory=dict)  # workspace → what in its policies has no effect

    @property
    def loaded_files(self) -> FilePolicies:
        assert self.files is not None
        return self.files

    def links(self) -> dict[str, list[LinkUse]]:
        """The external links that policies name, by URL."""
        uses: dict[str, list[LinkUse]] = {}
        for workspace, contexts in self._list_contexts():
            for compiled in contexts.values():
                for resource, link in (compiled.links or {}).items():
                    uses.setdefault(link.url, []).append(LinkUse(workspace, resource, link))
        return uses

    def list_tool_servers(self) -> dict[ToolServerAddress, list[ServerUse]]:
        """The MCP servers that policies name."""
        uses: dict[ToolServerAddress, list[ServerUse]] = {}
        for workspace, contexts in self._list_contexts():
            for compiled in contexts.values():
                for resource, address in (compiled.servers or {}).items():
                    uses.setdefault(address, []).append(ServerUse(workspace, resource))
        return uses

    def list_server_users(self, addresses: Collection[ToolServerAddress]) -> list[str]:
        """The workspaces that use one of these servers; "": the files, which all share."""
        uses = self.list_tool_servers()
        return sorted({use.workspace for address in addresses for use in uses.get(address, ())})

    def _list_contexts(self) -> list[tuple[str, Mapping[str, CompiledEntry]]]:
        """The compiled contexts of the files and of each workspace."""
        shared = {} if self.files is None else self.files.policies.compiled["contexts"]
        return [("", shared), *((name, one.contexts) for name, one in self.workspaces.items())]

    def list_expired(self, now: float) -> list[str]:
        """The workspaces in which something has become valid or expired since they were built."""
        # A workspace with an error keeps its former snapshot, whose time has passed for good.
        others = (name for name in self.workspaces if name not in self.errors)
        return [name for name in others if _has_passed(self.workspaces[name].snapshot, now)]

    def has_expired_files(self, now: float) -> bool:
        """Whether something in the files has become valid or expired."""
        return _has_passed(self.base, now)

    def count_links(self, workspace: str) -> int:
        """The URLs that a workspace's own contexts name."""
        known = self.faulty.get(workspace) or self.workspaces.get(workspace)
        return 0 if known is None else known.link_count

    def list_link_users(self, urls: Collection[str]) -> list[str]:
        """The workspaces that use one of these links; "": the files, which all share."""
        return sorted({use.workspace for url, uses in self.links().items() if url in urls for use in uses})

    def replace_workspace(self, name: str, built: WorkspaceBuild) -> "PolicyGeneration":
        """The next generation: with one workspace built anew. One with faults keeps the snapshot that it had."""
        former = self.workspaces.get(name)
        keeps = built.workspace is not None and former is not None and built.workspace.snapshot is former.snapshot
        number = self.number if keeps else self.number + 1
        workspaces, errors, faulty = dict(self.workspaces), dict(self.errors), dict(self.faulty)
        warnings = {other: warning for other, warning in self.warnings.items() if other != name}
        if built.warning is not None:
            warnings[name] = built.warning
        errors.pop(name, None)
        faulty.pop(name, None)
        if built.error is not None:
            errors[name] = built.error
            if built.workspace is not None:
                faulty[name] = built.workspace
        elif built.workspace is None:
            workspaces.pop(name, None)
        else:
            workspaces[name] = built.workspace if keeps else built.workspace.replace_generation(number, former)
        return replace(
            self,
            number=number,
            workspaces=workspaces,
            errors=errors,
            faulty=faulty,
            warnings=warnings,
            unbuilt=self.unbuilt - {name},
        )


def _says_the_same(workspace: Workspace, former: Workspace, now: float) -> bool:
    return not _has_passed(former.snapshot, now) and workspace.says_the_same(former)


def _has_passed(snapshot: Snapshot, now: float) -> bool:
    return snapshot.valid_until is not None and snapshot.valid_until <= now


class GenerationBuilder:
    """Builds workspaces. It takes milliseconds of CPU, or seconds: not on the event loop."""

    def __init__(self, source: PolicySource, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock

    def build(self, generation: PolicyGeneration, name: str) -> WorkspaceBuild:
        """A workspace from what is stored now."""
        workspace = self.build_workspace(generation, name)
        if workspace.is_empty:
            return WorkspaceBuild()
        former = generation.workspaces.get(name)
        now = self._clock()
        if former is not None and name not in generation.errors and _says_the_same(workspace, former, now):
            return WorkspaceBuild(former.replace_entries(workspace.own), warning=generation.warnings.get(name))
        try:
            assembled = workspace.assemble(generation.number, now)
        except Faults as faults:
            log.error("the stored policies of workspace %r are invalid and not in use:\n%s", name, faults)
            return WorkspaceBuild(workspace, str(faults))
        warning = describe_bare_readers(assembled.snapshot)
        if warning is not None and warning != generation.warnings.get(name):
            log.error("in the stored policies of workspace %r, %s", name, warning)
        return WorkspaceBuild(assembled, warning=warning)

    def build_workspace(self, generation: PolicyGeneration, name: str, changes: Changes | None = None) -> Workspace:
        """A workspace with its stored policies and, if given, changes to them; not yet assembled."""
        entries = generation.stored.preview_entries(name, changes or {})
        former = generation.faulty.get(name) or generation.workspaces.get(name)
        source = replace(self._source, workspace=name)
        adopted = generation.stored.list_adopted(name)
        if changes:  # whoever tries another body for an alias wants to see what it does, also in place of a file's
            adopted |= {key for key, data in changes.items() if data is not None and not isinstance(data, Record)}
        return Workspace.build(entries, generation.loaded_files, source, former, adopted)


def describe_bare_readers(snapshot: Snapshot) -> str | None:
    """The names in stored reader lists that earlier releases took for users, groups and keys alike; None: none."""
    if not any(map(find_reader_fault, snapshot.readers)):
        return None
    lists = [(f"resource {one.id}", one.readers) for one in snapshot.resources.values()]
    lists += [(f"node {one.path}", one.readers) for one in snapshot.tree.nodes.values()]
    faults = ((place, find_reader_fault(name)) for place, names in lists for name in names)
    found = [f"{place}: {fault}" for place, fault in faults if fault is not None]
    if not found:
        return None  # the tree may still know names that its nodes have no more
    more = f" (and {len(found) - MOST_WARNINGS} more)" if len(found) > MOST_WARNINGS else ""
    return f"bare names in `readers` name nobody: {'; '.join(found[:MOST_WARNINGS])}{more}"
