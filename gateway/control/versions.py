"""Former versions of objects: list, compare and restore them."""

from typing import Any, Protocol

import orjson

from gateway.control.authorship import Tags
from gateway.control.diff import list_differences
from gateway.control.object_bodies import kind_name
from gateway.control.objects import PolicyObject
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record, RecordKey
from gateway.errors import FieldError, InvalidObject, NotFound, PreconditionFailed
from gateway.stores.protocols import RecordPage, RecordStore


class VersionedObjects(Protocol):
    """The objects of one kind: how they are found, and whether one may be restored."""

    @property
    def kind(self) -> str:
        """The kind of their records."""
        ...

    def find(self, workspace: str, name: str) -> PolicyObject | None:
        """One object by any of its names, if it exists."""
        ...

    async def check(self, workspace: str, alias: str, body: dict[str, Any]) -> None:
        """Raise InvalidObject or Conflict unless the object may have this body now."""
        ...


class Versions:
    """The versions of the objects of a kind; a deleted object is found by its alias."""

    def __init__(self, objects: VersionedObjects, records: RecordStore, writer: PolicyWriter) -> None:
        self._objects = objects
        self._records = records
        self._writer = writer

    async def list_all(self, workspace: str, name: str, skip: int, take: int) -> RecordPage:
        """The stored versions, newest first; an object of a file has none."""
        current = self._objects.find(workspace, name)
        if current is not None and current.record is None:
            return RecordPage([], 0)
        page = await self._records.list_versions(self._make_key(workspace, name, current), skip, take)
        if not page.total:
            raise NotFound(f"There is no {kind_name(self._objects.kind)} {name!r}, and no former version of one.")
        return page

    async def get(self, workspace: str, name: str, number: int) -> Record:
        """One version; raises NotFound."""
        return await self._get_version(workspace, name, number, self._objects.find(workspace, name))

    async def compare(self, workspace: str, name: str, pair: tuple[int, int]) -> list[dict[str, Any]]:
        """The differences between two versions; a deletion counts as empty."""
        before, after = [decode_body(await self.get(workspace, name, number)) for number in pair]
        return list_differences(before or {}, after or {})

    async def rollback(self, caller: Principal, name: str, number: int, tags: Tags = None) -> PolicyObject:
        """Make a former version the next one; a deleted object gets its id back."""
        kind = self._objects.kind
        async with self._writer.lock(caller.workspace):
            current = self._objects.find(caller.workspace, name)
            if current is not None:
                current.require_writable(tags)
            record = await self._get_version(caller.workspace, name, number, current)
            if current is None and tags is not None:
                raise PreconditionFailed(f"{kind}/{name} is deleted; omit If-Match to restore it.")
            body = decode_body(record)
            if body is None:
                raise InvalidObject(
                    "This version is a deletion and cannot be restored.", [FieldError("/version", "is a deletion")]
                )
            alias = record.key.alias
            await self._objects.check(caller.workspace, alias, body)
            former = await self._find_whole(current.record) if current is not None and current.record else None
            change = Change(kind, alias, body, former, record.id if former is None else None)
            await self._writer.commit(caller, "rollback", [change], tags)
        return self._get_current(caller.workspace, alias)

    async def _find_whole(self, record: Record) -> Record:
        """The record with its whole body."""
        return (await self._records.read([record.key])).get(record.key, record)

    async def _get_version(self, workspace: str, name: str, number: int, current: PolicyObject | None) -> Record:
        kind = self._objects.kind
        if current is not None and current.record is None:
            raise NotFound(f"{kind}/{current.alias} is defined in the file {current.file} and has no versions.")
        record = await self._records.find_version(self._make_key(workspace, name, current), number)
        if record is None:
            raise NotFound(f"There is no version {number} of {kind}/{name}.")
        return record

    def _get_current(self, workspace: str, alias: str) -> PolicyObject:
        found = self._objects.find(workspace, alias)
        if found is None:
            raise NotFound(
                f"The {kind_name(self._objects.kind)} {alias!r} was deleted by someone else in the meantime."
            )
        return found

    def _make_key(self, workspace: str, name: str, current: PolicyObject | None) -> RecordKey:
        return RecordKey(workspace, self._objects.kind, name if current is None else current.alias)


def decode_body(record: Record) -> dict[str, Any] | None:
    """The object as of this version; None if the version is a deletion."""
    return None if record.body is None else dict(orjson.loads(record.body))
