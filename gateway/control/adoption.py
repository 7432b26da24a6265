"""Adopts objects of policy files: a stored object of the same alias takes over, until it is released.

Nothing changes upstream by that, and the snapshot keeps its hash. The file's entry is shadowed from then on.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from gateway.control.bundle_export import BundleExporter, BundleObjects
from gateway.control.diff import list_differences
from gateway.control.object_bodies import SHAPES, kind_name, make_stored_body
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.errors import Conflict, Forbidden, NotFound, quote
from gateway.extraction.extract import DocumentCache
from gateway.policies.files import SECTIONS, PolicyEntry
from gateway.policies.repository import PolicyRepository
from gateway.policies.workspace import ADOPTED, ADOPTED_KINDS, AdoptedName, is_mandatory

MANDATORY = "It is mandatory, and so it stays the file's."
NOT_ALLOWED = "This gateway does not let objects of policy files be adopted (`adopt: false`)."

Names = Collection[AdoptedName]


class AdoptionStep(msgspec.Struct, frozen=True):
    """What happens to one object."""

    kind: str
    alias: str
    action: Literal["adopt", "release", "unchanged"]
    file: str | None = None  # where the file's entry stands; None: it is gone
    reason: str | None = None  # why nothing happens
    changes: tuple[dict[str, Any], ...] = ()  # what is different from then on


class Adoption:
    """Adopts and releases objects in the workspaces of one gateway."""

    def __init__(
        self, policies: PolicyRepository, writer: PolicyWriter, files: DocumentCache, *, allowed: bool = True
    ) -> None:
        self._policies = policies
        self._writer = writer
        self._files = files
        self._allowed = allowed

    async def adopt(self, caller: Principal, names: Names | None, *, dry_run: bool = False) -> list[AdoptionStep]:
        """Adopt these objects, or all that can be; raises NotFound, Conflict for what must stay the file's."""
        self.require_allowed()
        workspace = caller.workspace
        async with self._writer.lock(workspace):
            entries = self._policies.entries(workspace)
            steps = list(self._plan(entries, names))
            wanted = {(one.kind, one.alias) for one in steps if one.action == "adopt"}
            if wanted:
                objects = await self._policies.threads.run(workspace, self._export, entries, wanted)
                await self._require_no_difference(workspace, objects)
                if not dry_run:
                    await self._writer.commit(caller, "adopt", list(self._list_changes(workspace, objects, wanted)))
        return steps

    async def release(self, caller: Principal, names: Names | None, *, dry_run: bool = False) -> list[AdoptionStep]:
        """Give these objects, or all that were adopted, back to the files; raises NotFound."""
        workspace = caller.workspace
        async with self._writer.lock(workspace):
            adopted = self._policies.list_adopted(workspace)
            for kind, alias in names or ():
                if (kind, alias) not in adopted:
                    raise NotFound(f"The {kind_name(kind)} {quote(alias)} was not adopted from a policy file.")
            wanted = sorted(adopted if names is None else {*names}, key=_rank)
            steps = await self._policies.threads.run(workspace, self._plan_releases, workspace, wanted)
            if wanted:
                await self._writer.check(workspace, dict.fromkeys(wanted))
                if not dry_run:
                    await self._writer.commit(caller, "release", list(self._list_removals(workspace, wanted)))
        return steps

    def require_allowed(self) -> None:
        """Raise Forbidden if nothing may be adopted here."""
        if not self._allowed:
            raise Forbidden(NOT_ALLOWED)

    def make_mark(self, workspace: str, kind: str, alias: str) -> Change:
        """What a commit writes so that the stored object takes over from the file's."""
        name = f"{kind}/{alias}"
        return Change(ADOPTED, name, {}, self._find_record(workspace, ADOPTED, name))

    def find_hidden(self, workspace: str, kind: str, alias: str) -> Record | None:
        """What is stored under the alias although the file's entry is in use."""
        return self._find_record(workspace, kind, alias)

    def _plan(self, entries: Mapping[str, Mapping[str, PolicyEntry]], names: Names | None) -> Iterator[AdoptionStep]:
        for kind, alias in names or ():
            if kind not in ADOPTED_KINDS or alias not in entries[kind]:
                raise NotFound(f"There is no {kind_name(kind)} {quote(alias)}.")
        for kind in ADOPTED_KINDS:
            for alias, entry in entries[kind].items():
                if names is None or (kind, alias) in names:
                    yield from self._plan_object(kind, alias, entry, named=names is not None)

    def _plan_object(self, kind: str, alias: str, entry: PolicyEntry, *, named: bool) -> Iterator[AdoptionStep]:
        if entry.record is not None:
            if named:
                yield AdoptionStep(kind, alias, "unchanged", reason="It is stored already.")
        elif not is_mandatory(entry):
            yield AdoptionStep(kind, alias, "adopt", str(entry.location))
        elif named:
            raise Conflict(f"{kind}/{alias} ({entry.location}) cannot be adopted. {MANDATORY}")
        else:
            yield AdoptionStep(kind, alias, "unchanged", str(entry.location), MANDATORY)

    def _export(self, entries: Mapping[str, Mapping[str, PolicyEntry]], wanted: Names) -> BundleObjects:
        """The objects as they are stored, with the documents that their files have beside them."""
        # In the order of the files: ids grow with it, and objects keep it when the files are gone.
        chosen: dict[str, dict[str, PolicyEntry]] = {
            kind: {alias: entry for alias, entry in entries[kind].items() if (kind, alias) in wanted}
            for kind in SECTIONS
        }
        found = BundleExporter(self._files).objects(chosen)
        new = {name: data for name, data in found.items() if name in wanted or name[1] not in entries[name[0]]}
        return {(kind, alias): make_stored_body(kind, alias, data) for (kind, alias), data in new.items()}

    async def _require_no_difference(self, workspace: str, objects: BundleObjects) -> None:
        """Raise Conflict if requests would be told anything else."""
        await self._writer.check(workspace, objects)
        before = self._policies.get_snapshot(workspace).hash
        after = (await self._policies.try_changes(workspace, objects)).hash
        if before != after:
            raise Conflict("Adopting this would change what models are told. The files may have just changed: retry.")

    def _list_changes(self, workspace: str, objects: BundleObjects, wanted: Names) -> Iterator[Change]:
        for (kind, alias), body in objects.items():
            yield Change(kind, alias, body, self._find_record(workspace, kind, alias))
        for kind, alias in sorted(wanted, key=_rank):
            yield self.make_mark(workspace, kind, alias)

    def _plan_releases(self, workspace: str, wanted: Sequence[AdoptedName]) -> list[AdoptionStep]:
        """What a release makes different: back from what is stored to what the files say."""
        found = {name: self._policies.find_file_entry(*name) for name in wanted}
        stored = self._policies.entries(workspace)
        compared = {name: entry for name, entry in found.items() if entry is not None and name[0] in SHAPES}
        sections = {kind: {alias: one for (own, alias), one in compared.items() if own == kind} for kind in SECTIONS}
        said = BundleExporter(self._files).objects(sections)
        steps = []
        for name, entry in found.items():
            former = stored[name[0]].get(name[1])
            pair = (former.data, said[name]) if former is not None and name in said else ({}, {})
            before, after = (make_stored_body(*name, data) if data else {} for data in pair)
            location = None if entry is None else str(entry.location)
            steps.append(AdoptionStep(*name, "release", location, changes=tuple(list_differences(before, after))))
        return steps

    def _list_removals(self, workspace: str, wanted: Names) -> Iterator[Change]:
        for kind, alias in wanted:
            for place in (kind, f"draft:{kind}"):
                if (record := self._find_record(workspace, place, alias)) is not None:
                    yield Change(place, alias, None, record)
            mark = self.make_mark(workspace, kind, alias)
            yield Change(mark.kind, mark.alias, None, mark.former)

    def _find_record(self, workspace: str, kind: str, alias: str) -> Record | None:
        return self._policies.find_record(workspace, kind, alias)


def _rank(name: AdoptedName) -> tuple[int, str]:
    return SECTIONS.index(name[0]), name[1]
