"""Saved cases: questions of a workspace, and the resources that each should get. They are no policies."""

import secrets
from hashlib import sha256

import msgspec
import orjson

from gateway.control.authorship import Tags
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.errors import NotFound, PreconditionFailed
from gateway.evaluation.cases import CaseShape
from gateway.policies.repository import PolicyRepository

KIND = "cases"
PREFIX = "case-"


class SavedCase(msgspec.Struct, frozen=True):
    """A case as it is stored."""

    shape: CaseShape
    record: Record

    @property
    def id(self) -> str:
        return self.record.key.alias

    @property
    def tag(self) -> str:
        return f"{self.record.version}-{sha256(self.record.body or b'').hexdigest()[:8]}"


class EvaluationCases:
    """The saved cases of each workspace."""

    def __init__(self, policies: PolicyRepository, writer: PolicyWriter) -> None:
        self._policies, self._writer = policies, writer

    def list_all(self, workspace: str) -> list[SavedCase]:
        """All cases of a workspace, oldest first."""
        found = [record for record in self._policies.list_records(KIND) if record.key.workspace == workspace]
        return [_read_case(record) for record in sorted(found, key=lambda record: record.id)]

    def get(self, workspace: str, id: str) -> SavedCase:
        """One case; raises NotFound, also for those of other workspaces."""
        record = self._policies.find_record(workspace, KIND, id)
        if record is None:
            raise NotFound(f"There is no case {id!r}.")
        return _read_case(record)

    async def create(self, caller: Principal, shape: CaseShape) -> SavedCase:
        """Save a new case."""
        return await self._commit(caller, "create", f"{PREFIX}{secrets.token_hex(6)}", shape, None)

    async def update(self, caller: Principal, id: str, shape: CaseShape, tags: Tags = None) -> SavedCase:
        """Replace a case."""
        async with self._writer.lock(caller.workspace):
            former = self._require(caller.workspace, id, tags)
            return await self._commit(caller, "update", id, shape, former.record, tags)

    async def delete(self, caller: Principal, id: str, tags: Tags = None) -> None:
        """Delete a case."""
        async with self._writer.lock(caller.workspace):
            former = self._require(caller.workspace, id, tags)
            await self._writer.commit(caller, "delete", [Change(KIND, id, None, former.record)], tags)

    def _require(self, workspace: str, id: str, tags: Tags) -> SavedCase:
        case = self.get(workspace, id)
        if tags is not None and not tags & {case.tag, "*"}:
            raise PreconditionFailed(f"The case {id!r} has changed. Read it again and retry.")
        return case

    async def _commit(
        self, caller: Principal, action: str, id: str, shape: CaseShape, former: Record | None, tags: Tags = None
    ) -> SavedCase:
        change = Change(KIND, id, shape.model_dump(exclude_defaults=True), former)
        (record,) = await self._writer.commit(caller, action, [change], tags)
        return SavedCase(shape, record)


def _read_case(record: Record) -> SavedCase:
    return SavedCase(CaseShape.model_validate(orjson.loads(record.body or b"{}")), record)
