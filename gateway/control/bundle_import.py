"""Imports a bundle, all of it or nothing; a dry run shows what would change."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from gateway.control.adoption import Adoption
from gateway.control.bundle_export import BundleExporter, BundleObjects
from gateway.control.bundle_knowledge import BundleItems, KnowledgePlan, plan_items, read_items, store_items
from gateway.control.bundle_plan import PlannedChange
from gateway.control.bundle_reader import Bundle, read_bundle
from gateway.control.object_bodies import is_same_object
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal, Role
from gateway.errors import Conflict, Fault, Faults, FieldError, Forbidden, InvalidObject
from gateway.extraction.extract import DocumentCache
from gateway.knowledge.repository import KnowledgeRepository
from gateway.knowledge.workspace import WorkspaceKnowledge
from gateway.policies.files import KNOWLEDGE, SECTIONS, PolicyEntry
from gateway.policies.repository import PolicyRepository
from gateway.policies.whole_entries import read_whole_entries
from gateway.policies.workspace import ADOPTED_KINDS, is_mandatory
from gateway.strict_yaml import YamlDocument
from gateway.validation import format_pointer

MOST_NAMES = 5  # that a message names

Entries = Mapping[str, Mapping[str, PolicyEntry]]


class ImportOptions(msgspec.Struct, frozen=True):
    """How a bundle is imported."""

    replace: bool = False  # delete stored objects that are not in the bundle
    dry_run: bool = False


class BundleImporter:
    """Imports into the workspaces of one gateway."""

    def __init__(
        self,
        policies: PolicyRepository,
        writer: PolicyWriter,
        files: DocumentCache,
        knowledge: KnowledgeRepository,
        adoption: Adoption | None = None,
    ) -> None:
        self._policies = policies
        self._writer = writer
        self._files = files
        self._knowledge = knowledge
        self._adoption = adoption or Adoption(policies, writer, files)

    async def run(self, caller: Principal, document: YamlDocument, options: ImportOptions) -> list[PlannedChange]:
        """Import a bundle and return what was, or would be, done.

        What policy files define differently is adopted. Raises InvalidObject for an invalid bundle, Conflict for
        what cannot be adopted, and Forbidden where the caller may not adopt.

        Everything is checked before anything is stored: policies first, then the knowledge graph, whose store is
        another one. Each is stored as a whole; the same import goes on where a failure between them has ended it.
        """
        workspace = caller.workspace
        async with self._writer.lock(workspace):
            known = {path: node.id for path, node in self._policies.get_snapshot(workspace).tree.nodes.items()}
            entries = await read_whole_entries(self._policies, workspace)
            bundle = await self._policies.threads.run(workspace, _read, document, known)
            plan = await self._policies.threads.run(workspace, self._plan, bundle, entries, options.replace)
            items = await self._plan_items(workspace, document, options.replace)
            self._require_adoptable(caller, plan, entries)
            changed = [one for one in plan if one.action != "unchanged"]
            changes = {(one.kind, one.alias): one.data for one in changed}
            await self._writer.check(workspace, changes, lambda fault: _make_error(bundle.relocate(fault), document))
            if items.writes:
                self._knowledge.check_quotas(workspace, items.writes)
            if changed and not options.dry_run:
                await self._writer.commit(caller, "import", list(self._list_changes(workspace, changed)))
            if not options.dry_run:
                await store_items(self._knowledge, caller, items)
        return [*plan, *items.steps]

    async def _plan_items(self, workspace: str, document: YamlDocument, replace_all: bool) -> KnowledgePlan:
        """What is to be done with the knowledge graph; raises InvalidObject, Conflict and StoreError."""
        if not replace_all and (not isinstance(document.data, dict) or document.data.get(KNOWLEDGE) is None):
            return KnowledgePlan()
        await self._knowledge.refresh()
        known = self._knowledge.get(workspace)

        def work() -> KnowledgePlan:
            bundle = _read_items(document, known, replace_all)
            plan = plan_items(workspace, bundle, known, replace_all)
            _require_own_items(plan, bundle, known)
            return plan

        return await self._policies.threads.run(workspace, work)

    def _require_adoptable(self, caller: Principal, plan: Sequence[PlannedChange], entries: Entries) -> None:
        """Raise Forbidden if the caller may not take over what the plan takes over from policy files."""
        taken = [one for one in plan if one.action == "adopt"]
        if not taken:
            return
        self._adoption.require_allowed()
        if not caller.role.covers(Role.ADMIN):
            raise Forbidden(
                f"Policy files define {_name_places(taken, entries)} differently; only admins can adopt them."
            )

    def _list_changes(self, workspace: str, changed: Sequence[PlannedChange]) -> Iterator[Change]:
        adopted = self._policies.list_adopted(workspace)
        for one in changed:
            if one.action == "adopt":
                hidden = self._adoption.find_hidden(workspace, one.kind, one.alias)
                yield replace(one, record=hidden).to_change()
                yield self._adoption.make_mark(workspace, one.kind, one.alias)
            else:
                yield one.to_change()
                if one.action == "delete" and one.name in adopted:
                    yield replace(self._adoption.make_mark(workspace, one.kind, one.alias), body=None)

    def _plan(self, bundle: Bundle, entries: Entries, replace_all: bool) -> list[PlannedChange]:
        current = BundleExporter(self._files).objects(entries)
        plan = [_plan_object(kind, alias, data, current, entries) for (kind, alias), data in bundle.objects.items()]
        _require_stored(plan, entries, bundle)
        plan = [one if _is_needed(one, plan, current) else replace(one, action="unchanged") for one in plan]
        return [*plan, *(_plan_deletions(entries, bundle.objects) if replace_all else ())]


def _read(document: YamlDocument, known: Mapping[str, str]) -> Bundle:
    try:
        return read_bundle(document, known)
    except Faults as faults:
        raise _reject(document, faults) from faults


def _read_items(document: YamlDocument, known: WorkspaceKnowledge, replace_all: bool) -> BundleItems:
    try:
        return read_items(document, known, replace_all)
    except Faults as faults:
        raise _reject(document, faults) from faults


def _reject(document: YamlDocument, faults: Faults) -> InvalidObject:
    errors = [_make_error(fault, document) for fault in faults.faults]
    return InvalidObject("The bundle is invalid; nothing was changed.", errors)


def _require_own_items(plan: KnowledgePlan, bundle: BundleItems, known: WorkspaceKnowledge) -> None:
    """Raise Conflict if policy files define an item differently."""
    if not plan.conflicts:
        return
    places = known.graph.items.places
    faults = [
        _make_error(
            bundle.locations[key].fault(f"is defined differently in {places[key]}"), bundle.locations[key].document
        )
        for key in plan.conflicts
    ]
    names = _name_some([f"{kind}/{identity} ({places[kind, identity]})" for kind, identity in plan.conflicts])
    raise Conflict(f"Policy files define {names} differently. Change the files instead.", faults)


def _plan_object(kind: str, alias: str, data: Any, current: BundleObjects, entries: Entries) -> PlannedChange:
    entry = entries[kind].get(alias)
    if entry is None:
        return PlannedChange(kind, alias, "create", data=data)
    former = current[kind, alias]
    if is_same_object(kind, alias, former, data):
        return PlannedChange(kind, alias, "unchanged")
    if entry.record is None and kind in ADOPTED_KINDS and not is_mandatory(entry):
        return PlannedChange(kind, alias, "adopt", former, data)
    return PlannedChange(kind, alias, "update", former, data, entry.record)


def _is_needed(change: PlannedChange, plan: Sequence[PlannedChange], current: BundleObjects) -> bool:
    """Whether a document has to be stored: not if only policy files use it, as they have it beside them."""
    if change.kind != "documents" or change.action != "create" or (change.kind, change.alias) not in current:
        return True
    changed = [one.data for one in plan if one.kind == "contexts" and one.action in ("create", "update", "adopt")]
    return change.alias in orjson.dumps(changed).decode()


def _require_stored(plan: Sequence[PlannedChange], entries: Entries, bundle: Bundle) -> None:
    in_files = [one for one in plan if one.action == "update" and one.record is None]
    if in_files:
        message = f"Policy files define {_name_places(in_files, entries)} differently"
        faults = [
            FieldError(
                format_pointer(bundle.places[one.name]),
                f"is defined differently in {entries[one.kind][one.alias].location}",
            )
            for one in in_files
        ]
        raise Conflict(f"{message}, and these cannot be adopted. Change the files instead.", faults)


def _name_places(changes: Sequence[PlannedChange], entries: Entries) -> str:
    """The objects with their places in policy files, some of them if there are many."""
    return _name_some([f"{one.kind}/{one.alias} ({entries[one.kind][one.alias].location})" for one in changes])


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _plan_deletions(entries: Entries, kept: BundleObjects) -> Iterator[PlannedChange]:
    for kind in SECTIONS:
        for alias, entry in entries[kind].items():
            if entry.record is not None and (kind, alias) not in kept:
                yield PlannedChange(kind, alias, "delete", entry.data, None, entry.record)


def _make_error(fault: Fault, document: YamlDocument) -> FieldError:
    """A fault by its pointer, and by its line if the bundle was written in YAML."""
    line = f" (line {fault.line})" if document.lines else ""
    return FieldError(format_pointer(fault.keys), fault.message + line)
