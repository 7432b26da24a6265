"""Policies as they were, as a draft has them, or both: a snapshot that nobody is served."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.control.objects import Objects
from gateway.domain.record import Record, RecordKey
from gateway.domain.snapshot import Snapshot
from gateway.errors import Conflict, Faults, FieldError, InvalidObject
from gateway.policies.files import SECTIONS
from gateway.policies.repository import PolicyRepository
from gateway.policies.workspace import Changes
from gateway.stores.protocols import AuditFilter, RecordStore

DAY_SECONDS = 86_400.0
AUDIT_PAGE = 500
MAX_ENTRIES = 20_000  # of the audit that are looked through for the policies of a time
MAX_OBJECTS = 1_000  # that differ from the current policies

ObjectKey = tuple[str, str]  # kind, alias


class PolicyChoice(msgspec.Struct, frozen=True):
    """Which policies: the current ones, unless something else is said. Versions go over a time, drafts over both."""

    as_of: float | None = None  # seconds since 1970
    versions: Mapping[str, int] = msgspec.field(default_factory=dict)  # by kind/alias
    drafts: bool | Sequence[str] = False  # all of them, or these, as kind/alias

    @property
    def is_current(self) -> bool:
        return self.as_of is None and not self.versions and not self.drafts


class OverlayBuilder:
    """Builds snapshots of one workspace that differ from what it is served."""

    def __init__(
        self,
        policies: PolicyRepository,
        objects: Objects,
        records: RecordStore,
        audit_days: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._policies, self._objects, self._records = policies, objects, records
        self._audit_days, self._clock = audit_days, clock

    async def build(self, workspace: str, choice: PolicyChoice) -> Snapshot:
        """The snapshot; raises InvalidObject for what does not exist, Conflict for what is no longer stored."""
        if choice.is_current:
            return self._policies.get_snapshot(workspace)
        changes: dict[ObjectKey, Any] = {}
        if choice.as_of is not None:
            changes |= await self._find_former(workspace, choice.as_of)
        changes |= await self._find_versions(workspace, choice.versions)
        changes |= self._find_drafts(workspace, choice.drafts)
        try:
            return await self._policies.try_changes(workspace, changes)
        except Faults as faults:
            wrong = [FieldError("", f"{one.file}: {one.path}: {one.message}") for one in faults.faults]
            raise InvalidObject("These policies would be invalid together.", wrong) from faults

    async def _find_former(self, workspace: str, at: float) -> dict[ObjectKey, Any]:
        """What has changed since a time, as it was then; policy files have no versions and stay as they are now."""
        if at < self._clock() - self._audit_days * DAY_SECONDS:
            raise Conflict(f"What changed more than {self._audit_days} days ago is no longer known.")
        first: dict[RecordKey, int] = {}  # the first version after that time
        for skip in range(0, MAX_ENTRIES, AUDIT_PAGE):
            page = await self._records.list_audit(workspace, AuditFilter(), skip, AUDIT_PAGE)
            since = [entry for entry in page.entries if entry.at > at]
            first |= {entry.key: entry.version for entry in since if entry.key.kind in SECTIONS}
            if len(first) > MAX_OBJECTS:
                break
            if len(since) < AUDIT_PAGE:
                return {(key.kind, key.alias): await self._find_body(key, number - 1) for key, number in first.items()}
        raise Conflict(f"Too much has changed since then: more than {MAX_OBJECTS} objects or {MAX_ENTRIES} times.")

    async def _find_body(self, key: RecordKey, number: int) -> Record | None:
        """One version; None if there was none, or if it is a deletion."""
        if number == 0:
            return None
        record = await self._records.find_version(key, number)
        if record is None:
            raise Conflict(f"Version {number} of {key.kind}/{key.alias} is no longer stored.")
        return None if record.body is None else record

    async def _find_versions(self, workspace: str, versions: Mapping[str, int]) -> dict[ObjectKey, Any]:
        found: dict[ObjectKey, Any] = {}
        wrong = []
        for name, number in versions.items():
            pointer = "/versions/" + name.replace("~", "~0").replace("/", "~1")
            kind, _, alias = name.partition("/")
            record = await self._find_version(RecordKey(workspace, kind, alias), number)
            if isinstance(record, str):
                wrong.append(FieldError(pointer, record))
            else:
                found[kind, alias] = None if record.body is None else record
        if wrong:
            raise InvalidObject("Some of these versions do not exist.", wrong)
        return found

    async def _find_version(self, key: RecordKey, number: int) -> Record | str:
        """A version, or why there is none."""
        if key.kind not in SECTIONS or not key.alias:
            return f"is not an object: write one of {', '.join(SECTIONS)}, a slash and an alias"
        known = self._policies.entries(key.workspace)[key.kind].get(key.alias)
        if known is not None and known.record is None:
            return f"is defined in the file {known.location} and has no versions"
        record = await self._records.find_version(key, number)
        return f"there is no version {number}" if record is None else record

    def _find_drafts(self, workspace: str, wanted: bool | Sequence[str]) -> Changes:
        drafts: Changes = self._objects.draft_changes(workspace) if wanted else {}
        if isinstance(wanted, bool):
            return drafts
        by_name = {f"{kind}/{alias}": (kind, alias) for kind, alias in drafts}
        missing = [position for position, name in enumerate(wanted) if name not in by_name]
        if missing:
            wrong = [FieldError(f"/drafts/{place}", f"there is no draft {wanted[place]!r}") for place in missing]
            raise InvalidObject("Some of these drafts do not exist.", wrong)
        return {by_name[name]: drafts[by_name[name]] for name in wanted}
