"""Former versions of objects: listed, compared, brought back."""

from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from gateway.control.base import Object, Tags
from gateway.control.diff import differences
from gateway.control.kinds import noun
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record, RecordKey
from gateway.errors import FieldError, InvalidObject, NotFound, PreconditionFailed


class History(Protocol):
    """The part of a record store that remembers."""

    async def versions(self, key: RecordKey, skip: int, take: int) -> tuple[list[Record], int]:
        """Versions that are kept of an object, newest first, and how many there are."""
        ...

    async def version(self, key: RecordKey, number: int) -> Record | None:
        """One version of an object, if it is kept."""
        ...


class Versioned(Protocol):
    """The objects of one kind: how they are found, and whether one may be again what it was."""

    @property
    def kind(self) -> str:
        """The kind of their records."""
        ...

    def find(self, workspace: str, name: str) -> Object | None:
        """One object by whatever it may be called, if there is one."""
        ...

    async def check(self, workspace: str, alias: str, body: dict[str, Any]) -> None:
        """Raise Invalid or Conflict unless the object may have this body now."""
        ...


class Versions:
    """What objects of a kind were before; a deleted one is found by its alias."""

    def __init__(self, objects: Versioned, history: History, desk: PolicyWriter) -> None:
        self._objects = objects
        self._history = history
        self._desk = desk

    async def every(self, workspace: str, name: str, skip: int, take: int) -> tuple[Sequence[Record], int]:
        """Versions that are kept, newest first, and how many there are; an object of a file has none."""
        current = self._objects.find(workspace, name)
        if current is not None and current.record is None:
            return [], 0
        records, total = await self._history.versions(self._key(workspace, name, current), skip, take)
        if not total:
            one = noun(self._objects.kind)
            raise NotFound(f"There is no {one} {name!r}, and there never was one that is remembered.")
        return records, total

    async def one(self, workspace: str, name: str, number: int) -> Record:
        """One version; raises NotFound."""
        return await self._one(workspace, name, number, self._objects.find(workspace, name))

    async def compare(self, workspace: str, name: str, pair: tuple[int, int]) -> list[dict[str, Any]]:
        """What differs between two versions; a deleted one is empty."""
        before, after = [body_of(await self.one(workspace, name, number)) for number in pair]
        return differences(before or {}, after or {})

    async def rollback(self, caller: Principal, name: str, number: int, tags: Tags = None) -> Object:
        """Make a former version the next one; a deleted object comes back with its id."""
        kind = self._objects.kind
        async with self._desk.turn(caller.workspace):
            current = self._objects.find(caller.workspace, name)
            if current is not None:
                current.require(tags)
                current.own()
            record = await self._one(caller.workspace, name, number, current)
            if current is None and tags is not None:
                raise PreconditionFailed(f"{kind}/{name} is deleted; leave If-Match out to bring it back.")
            body = body_of(record)
            if body is None:
                raise InvalidObject(
                    "This version is a deletion.", [FieldError("/version", "is the version of a deletion")]
                )
            alias = record.key.alias
            await self._objects.check(caller.workspace, alias, body)
            former = current.record if current is not None else None
            change = Change(kind, alias, body, former, record.id if former is None else None)
            await self._desk.commit(caller, "rollback", [change], tags)
        return self._again(caller.workspace, alias)

    async def _one(self, workspace: str, name: str, number: int, current: Object | None) -> Record:
        kind = self._objects.kind
        if current is not None and current.record is None:
            raise NotFound(f"{kind}/{current.alias} stands in the file {current.file}, which has no versions here.")
        record = await self._history.version(self._key(workspace, name, current), number)
        if record is None:
            raise NotFound(f"There is no version {number} of {kind}/{name}.")
        return record

    def _again(self, workspace: str, alias: str) -> Object:
        found = self._objects.find(workspace, alias)
        if found is None:
            raise NotFound(f"Somebody deleted the {noun(self._objects.kind)} {alias!r} at the same moment.")
        return found

    def _key(self, workspace: str, name: str, current: Object | None) -> RecordKey:
        return RecordKey(workspace, self._objects.kind, name if current is None else current.alias)


def body_of(record: Record) -> dict[str, Any] | None:
    """What the object was; None: this version deleted it."""
    return None if record.body is None else dict(orjson.loads(record.body))
