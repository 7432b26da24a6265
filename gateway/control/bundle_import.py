"""Imports a bundle, all of it or nothing; a dry run shows what would change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson
from pydantic import ValidationError

from gateway.control.bundle_export import BundleExporter, BundleObjects
from gateway.control.bundle_reader import Bundle, read_bundle
from gateway.control.diff import list_differences
from gateway.control.object_bodies import is_same_object, make_stored_body
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.errors import Conflict, Fault, Faults, FieldError, InvalidObject
from gateway.extraction.extract import DocumentCache
from gateway.policies.files import SECTIONS, PolicyEntry
from gateway.policies.repository import PolicyRepository
from gateway.strict_yaml import YamlDocument
from gateway.validation import format_pointer

Entries = Mapping[str, Mapping[str, PolicyEntry]]
Action = Literal["create", "update", "unchanged", "delete"]


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What an import does with one object."""

    kind: str
    alias: str
    action: Action
    former: Any = None
    data: Any = None
    record: Record | None = None

    @property
    def changes(self) -> list[dict[str, Any]]:
        """Field by field; empty for an object that is created or deleted."""
        if self.action != "update":
            return []
        return list_differences(*(_make_comparable(self.kind, self.alias, data) for data in (self.former, self.data)))

    def to_change(self) -> Change:
        body = None if self.action == "delete" else make_stored_body(self.kind, self.alias, self.data)
        return Change(self.kind, self.alias, body, self.record)


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How a bundle is imported."""

    replace: bool = False  # delete stored objects that are not in the bundle
    dry_run: bool = False


class BundleImporter:
    """Imports into the workspaces of one gateway."""

    def __init__(self, policies: PolicyRepository, writer: PolicyWriter, files: DocumentCache) -> None:
        self._policies = policies
        self._writer = writer
        self._files = files

    async def run(self, caller: Principal, document: YamlDocument, options: ImportOptions) -> list[PlannedChange]:
        """Import a bundle and return what was, or would be, done.

        Raises InvalidObject for an invalid bundle, and Conflict for objects that policy files define differently.
        """
        workspace = caller.workspace
        async with self._writer.lock(workspace):
            known = {path: node.id for path, node in self._policies.get_snapshot(workspace).nodes.items()}
            entries = self._policies.entries(workspace)
            bundle = await self._policies.threads.run(workspace, _read, document, known)
            plan = await self._policies.threads.run(workspace, self._plan, bundle, entries, options.replace)
            changed = [one for one in plan if one.action != "unchanged"]
            changes = {(one.kind, one.alias): one.data for one in changed}
            await self._writer.check(workspace, changes, lambda fault: _make_error(bundle.relocate(fault), document))
            if changed and not options.dry_run:
                await self._writer.commit(caller, "import", [one.to_change() for one in changed])
        return plan

    def _plan(self, bundle: Bundle, entries: Entries, replace_all: bool) -> list[PlannedChange]:
        current = BundleExporter(self._files).objects(entries)
        plan = [_plan_object(kind, alias, data, current, entries) for (kind, alias), data in bundle.objects.items()]
        _require_stored(plan, entries)
        plan = [one if _is_needed(one, plan, current) else replace(one, action="unchanged") for one in plan]
        return [*plan, *(_plan_deletions(entries, bundle.objects) if replace_all else ())]


def _read(document: YamlDocument, known: Mapping[str, str]) -> Bundle:
    try:
        return read_bundle(document, known)
    except Faults as faults:
        errors = [_make_error(fault, document) for fault in faults.faults]
        raise InvalidObject("The bundle is invalid; nothing was changed.", errors) from faults


def _make_comparable(kind: str, alias: str, data: Any) -> Any:
    try:
        return make_stored_body(kind, alias, data)
    except ValidationError:  # stored by another version of the gateway
        return data


def _plan_object(kind: str, alias: str, data: Any, current: BundleObjects, entries: Entries) -> PlannedChange:
    entry = entries[kind].get(alias)
    if entry is None:
        return PlannedChange(kind, alias, "create", data=data)
    former = current[kind, alias]
    if is_same_object(kind, alias, former, data):
        return PlannedChange(kind, alias, "unchanged")
    return PlannedChange(kind, alias, "update", former, data, entry.record)


def _is_needed(change: PlannedChange, plan: Sequence[PlannedChange], current: BundleObjects) -> bool:
    """Whether a document has to be stored: not if only policy files use it, as they have it beside them."""
    if change.kind != "documents" or change.action != "create" or (change.kind, change.alias) not in current:
        return True
    changed = [one.data for one in plan if one.kind == "contexts" and one.action in ("create", "update")]
    return change.alias in orjson.dumps(changed).decode()


def _require_stored(plan: Sequence[PlannedChange], entries: Entries) -> None:
    in_files = [one for one in plan if one.action == "update" and one.record is None]
    if in_files:
        names = ", ".join(f"{one.kind}/{one.alias} ({entries[one.kind][one.alias].location})" for one in in_files)
        raise Conflict(f"Policy files define these objects differently: {names}. Change the files instead.")


def _plan_deletions(entries: Entries, kept: BundleObjects) -> Iterator[PlannedChange]:
    for kind in SECTIONS:
        for alias, entry in entries[kind].items():
            if entry.record is not None and (kind, alias) not in kept:
                yield PlannedChange(kind, alias, "delete", entry.data, None, entry.record)


def _make_error(fault: Fault, document: YamlDocument) -> FieldError:
    """A fault by its pointer, and by its line if the bundle was written in YAML."""
    line = f" (line {fault.line})" if document.lines else ""
    return FieldError(format_pointer(fault.keys), fault.message + line)
