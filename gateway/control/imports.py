"""Takes a bundle over: all of it or nothing, and it can say first what would change."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson
from pydantic import ValidationError

from gateway.control.bundle import Exporter, Files, Objects
from gateway.control.bundle_reader import Bundle, read_bundle
from gateway.control.content import Served
from gateway.control.diff import differences
from gateway.control.forms import same, stored_body
from gateway.control.pointers import pointer
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.errors import Conflict, Fault, Faults, FieldError, InvalidObject
from gateway.policies.files import SECTIONS, PolicyEntry
from gateway.strict_yaml import YamlDocument

Entries = Mapping[str, Mapping[str, PolicyEntry]]
Action = Literal["create", "update", "unchanged", "delete"]


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one object."""

    kind: str
    alias: str
    action: Action
    former: Any = None
    data: Any = None
    record: Record | None = None

    @property
    def changes(self) -> list[dict[str, Any]]:
        """Field by field; nothing for what comes or goes as a whole."""
        if self.action != "update":
            return []
        return differences(*(_comparable(self.kind, self.alias, data) for data in (self.former, self.data)))

    def change(self) -> Change:
        body = None if self.action == "delete" else stored_body(self.kind, self.alias, self.data)
        return Change(self.kind, self.alias, body, self.record)


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How a bundle is to be taken over."""

    replace: bool = False  # stored objects that the bundle lacks are deleted
    dry_run: bool = False


class Importer:
    """Imports into the workspaces of one gateway."""

    def __init__(self, policies: Served, desk: PolicyWriter, files: Files) -> None:
        self._policies = policies
        self._desk = desk
        self._files = files

    async def run(self, caller: Principal, document: YamlDocument, wish: ImportOptions) -> list[Step]:
        """What is done, or would be; raises Invalid for a faulty bundle and Conflict for what files say otherwise."""
        workspace = caller.workspace
        async with self._desk.turn(workspace):
            known = {path: node.id for path, node in self._policies.of(workspace).nodes.items()}
            entries = self._policies.entries(workspace)
            bundle, steps = await asyncio.to_thread(self._planned, document, known, entries, wish.replace)
            changed = [step for step in steps if step.action != "unchanged"]
            tried = {(step.kind, step.alias): step.data for step in changed}
            await self._desk.tried(workspace, tried, lambda fault: _pointed(bundle.relocated(fault), document))
            if changed and not wish.dry_run:
                await self._desk.commit(caller, "import", [step.change() for step in changed])
        return steps

    def _planned(
        self, document: YamlDocument, known: Mapping[str, str], entries: Entries, whole: bool
    ) -> tuple[Bundle, list[Step]]:
        try:
            bundle = read_bundle(document, known)
        except Faults as wrong:
            told = [_pointed(fault, document) for fault in wrong.faults]
            raise InvalidObject("The bundle is faulty: nothing was changed.", told) from wrong
        current = Exporter(self._files).objects(entries)
        steps = [_step(kind, alias, data, current, entries) for (kind, alias), data in bundle.objects.items()]
        _refuse_owned(steps, entries)
        steps = [one if _is_needed(one, steps, current) else replace(one, action="unchanged") for one in steps]
        return bundle, [*steps, *(_deletions(entries, bundle.objects) if whole else ())]


def _comparable(kind: str, alias: str, data: Any) -> Any:
    try:
        return stored_body(kind, alias, data)
    except ValidationError:  # stored by another version of the gateway
        return data


def _step(kind: str, alias: str, data: Any, current: Objects, entries: Entries) -> Step:
    entry = entries[kind].get(alias)
    if entry is None:
        return Step(kind, alias, "create", data=data)
    former = current[kind, alias]
    if same(kind, alias, former, data):
        return Step(kind, alias, "unchanged")
    return Step(kind, alias, "update", former, data, entry.record)


def _is_needed(step: Step, steps: Sequence[Step], current: Objects) -> bool:
    """Whether a document has to be stored: not if only policy files use it, which have it beside them."""
    if step.kind != "documents" or step.action != "create" or (step.kind, step.alias) not in current:
        return True
    changed = [one.data for one in steps if one.kind == "contexts" and one.action in ("create", "update")]
    return step.alias in orjson.dumps(changed).decode()


def _refuse_owned(steps: Sequence[Step], entries: Entries) -> None:
    owned = [step for step in steps if step.action == "update" and step.record is None]
    if owned:
        named = ", ".join(f"{step.kind}/{step.alias} ({entries[step.kind][step.alias].place})" for step in owned)
        raise Conflict(f"Policy files own these and say otherwise: {named}. Change the files instead.")


def _deletions(entries: Entries, kept: Objects) -> Iterator[Step]:
    for kind in SECTIONS:
        for alias, entry in entries[kind].items():
            if entry.record is not None and (kind, alias) not in kept:
                yield Step(kind, alias, "delete", entry.data, None, entry.record)


def _pointed(fault: Fault, document: YamlDocument) -> FieldError:
    """A fault by its pointer; a person who wrote YAML looks for the line."""
    line = f" (line {fault.line})" if document.lines else ""
    return FieldError(pointer(fault.keys), fault.message + line)
