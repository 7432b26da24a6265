"""Drafts: the next version of an object, valid but not in use until it is published."""

from collections.abc import Sequence
from typing import Any

import orjson

from gateway.control.base import Object, Tags
from gateway.control.kinds import SHAPES, noun, stored_form
from gateway.control.objects import Objects
from gateway.control.received import keep_resources, received, require_alias
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.errors import NotFound, PreconditionFailed


class Drafts:
    """At most one draft per object; also for aliases that nothing has yet."""

    def __init__(self, objects: Objects, desk: PolicyWriter) -> None:
        self._objects = objects
        self._desk = desk

    def every(self, workspace: str) -> Sequence[Object]:
        """All drafts of a workspace by kind and alias."""
        kinds = {kind: self._objects.drafts(workspace, kind) for kind in SHAPES}
        return [_draft(kind, records[alias]) for kind, records in kinds.items() for alias in sorted(records)]

    def get(self, workspace: str, kind: str, name: str) -> Object:
        """The draft of an object; raises NotFound."""
        alias, record = self._find(workspace, kind, name)
        if record is None:
            raise NotFound(f"There is no draft of the {noun(kind)} {alias!r}.")
        return _draft(kind, record)

    async def put(self, caller: Principal, kind: str, name: str, sent: Any, tags: Tags = None) -> Object:
        """Make or replace a draft; it has to be valid as a save has to be."""
        given = received(kind, sent)
        async with self._desk.turn(caller.workspace):
            current = self._objects.find(caller.workspace, kind, name)
            if current is not None:
                current.own()
            alias, former = self._find(caller.workspace, kind, name)
            _require(kind, former, tags)
            require_alias(alias, sent)
            keep_resources(given, _base(kind, current, former))
            await self._objects.check(caller.workspace, kind, alias, given)
            body = stored_form(kind, alias, given.data)
            if former is None or orjson.dumps(body) != former.body:
                await self._desk.commit(caller, "draft", [Change(f"draft:{kind}", alias, body, former)], tags)
        return self.get(caller.workspace, kind, alias)

    async def delete(self, caller: Principal, kind: str, name: str, tags: Tags = None) -> None:
        """Throw a draft away."""
        async with self._desk.turn(caller.workspace):
            draft = self.get(caller.workspace, kind, name)
            draft.require(tags)
            await self._desk.commit(caller, "discard", [Change(f"draft:{kind}", draft.alias, None, draft.own())], tags)

    async def publish(self, caller: Principal, kind: str, name: str, tags: Tags = None) -> Object:
        """Make the draft the object's next version and remove it, both at once; `tags` are the object's."""
        async with self._desk.turn(caller.workspace):
            draft = self.get(caller.workspace, kind, name)
            current = self._objects.find(caller.workspace, kind, draft.alias)
            if current is not None:
                current.require(tags)
                current.own()
            elif tags is not None:
                raise PreconditionFailed(f"{kind}/{draft.alias} does not exist yet; leave If-Match out.")
            await self._objects.check(caller.workspace, kind, draft.alias, received(kind, draft.data))
            changes = [
                Change(kind, draft.alias, draft.data, current.record if current is not None else None),
                Change(f"draft:{kind}", draft.alias, None, draft.own()),
            ]
            await self._desk.commit(caller, "publish", changes, tags)
        return self._objects.get(caller.workspace, kind, draft.alias)

    def _find(self, workspace: str, kind: str, name: str) -> tuple[str, Record | None]:
        """The alias that a name means, and its draft."""
        drafts = self._objects.drafts(workspace, kind)
        current = self._objects.find(workspace, kind, name)
        alias = name if current is None else current.alias
        by_id = next((record for record in drafts.values() if record.id == name), None)
        return (by_id.key.alias, by_id) if by_id is not None else (alias, drafts.get(alias))


def _draft(kind: str, record: Record) -> Object:
    return Object(kind, record.key.alias, orjson.loads(record.body or b"{}"), record, draft=True)


def _require(kind: str, former: Record | None, tags: Tags) -> None:
    if former is not None:
        _draft(kind, former).require(tags)
    elif tags is not None:
        raise PreconditionFailed("There is no draft yet; leave If-Match out.")


def _base(kind: str, current: Object | None, former: Record | None) -> dict[str, Any]:
    """What a draft that is sent without resources takes them from."""
    if former is not None:
        return dict(_draft(kind, former).data)
    return dict(current.data) if current is not None else {}
