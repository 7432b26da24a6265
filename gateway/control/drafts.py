"""Drafts: the next version of an object, validated but not in use until it is published."""

from collections.abc import Sequence
from typing import Any

import orjson

from gateway.control.authorship import Tags
from gateway.control.object_bodies import (
    SHAPES,
    keep_resources,
    kind_name,
    make_stored_body,
    parse_body,
    require_same_alias,
)
from gateway.control.objects import Objects, PolicyObject
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.errors import NotFound, PreconditionFailed


class Drafts:
    """At most one draft per object; the object itself need not exist yet."""

    def __init__(self, objects: Objects, writer: PolicyWriter) -> None:
        self._objects = objects
        self._writer = writer

    def list_all(self, workspace: str) -> Sequence[PolicyObject]:
        """All drafts of a workspace by kind and alias."""
        kinds = {kind: self._objects.drafts(workspace, kind) for kind in SHAPES}
        return [_make_draft(kind, records[alias]) for kind, records in kinds.items() for alias in sorted(records)]

    def get(self, workspace: str, kind: str, name: str) -> PolicyObject:
        """The draft of an object; raises NotFound."""
        alias, record = self._find(workspace, kind, name)
        if record is None:
            raise NotFound(f"There is no draft of the {kind_name(kind)} {alias!r}.")
        return _make_draft(kind, record)

    async def put(
        self, caller: Principal, kind: str, name: str, sent: Any, tags: Tags = None, *, only_new: bool = False
    ) -> PolicyObject:
        """Create a draft, or replace it unless it has to be new; it is validated like an object that is saved."""
        parsed = parse_body(kind, sent)
        async with self._writer.lock(caller.workspace):
            current = self._objects.find(caller.workspace, kind, name)
            if current is not None:
                current.get_record()
            alias, former = self._find(caller.workspace, kind, name)
            if only_new and former is not None:
                raise PreconditionFailed(f"{kind}/{alias} has a draft already.")
            _require_tag(kind, former, tags)
            require_same_alias(alias, sent)
            keep_resources(parsed, _get_base(kind, current, former))
            await self._objects.check(caller.workspace, kind, alias, parsed)
            body = make_stored_body(kind, alias, parsed.data)
            if former is None or orjson.dumps(body) != former.body:
                await self._writer.commit(caller, "draft", [Change(f"draft:{kind}", alias, body, former)], tags)
        return self.get(caller.workspace, kind, alias)

    async def delete(self, caller: Principal, kind: str, name: str, tags: Tags = None) -> None:
        """Discard a draft."""
        async with self._writer.lock(caller.workspace):
            draft = self.get(caller.workspace, kind, name)
            change = Change(f"draft:{kind}", draft.alias, None, draft.require_writable(tags))
            await self._writer.commit(caller, "discard", [change], tags)

    async def publish(self, caller: Principal, kind: str, name: str, tags: Tags = None) -> PolicyObject:
        """Make the draft the object's next version and remove it, in one commit; `tags` are the object's."""
        async with self._writer.lock(caller.workspace):
            draft = self.get(caller.workspace, kind, name)
            current = self._objects.find(caller.workspace, kind, draft.alias)
            if current is not None:
                current.require_writable(tags)
            elif tags is not None:
                raise PreconditionFailed(f"{kind}/{draft.alias} does not exist yet; omit If-Match.")
            await self._objects.check(caller.workspace, kind, draft.alias, parse_body(kind, draft.data))
            changes = [
                Change(kind, draft.alias, draft.data, current.record if current is not None else None),
                Change(f"draft:{kind}", draft.alias, None, draft.get_record()),
            ]
            await self._writer.commit(caller, "publish", changes, tags)
        return self._objects.get(caller.workspace, kind, draft.alias)

    def _find(self, workspace: str, kind: str, name: str) -> tuple[str, Record | None]:
        """The alias that a name stands for, and its draft."""
        drafts = self._objects.drafts(workspace, kind)
        current = self._objects.find(workspace, kind, name)
        alias = name if current is None else current.alias
        by_id = next((record for record in drafts.values() if record.id == name), None)
        return (by_id.key.alias, by_id) if by_id is not None else (alias, drafts.get(alias))


def _make_draft(kind: str, record: Record) -> PolicyObject:
    return PolicyObject(kind, record.key.alias, orjson.loads(record.body or b"{}"), record, draft=True)


def _require_tag(kind: str, former: Record | None, tags: Tags) -> None:
    if former is not None:
        _make_draft(kind, former).require_tag(tags)
    elif tags is not None:
        raise PreconditionFailed("There is no draft yet; omit If-Match.")


def _get_base(kind: str, current: PolicyObject | None, former: Record | None) -> dict[str, Any]:
    """What a draft that is sent without resources takes them from."""
    if former is not None:
        return dict(_make_draft(kind, former).data)
    return dict(current.data) if current is not None else {}
