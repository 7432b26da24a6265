"""Contexts, profiles, agents and prompts: found, made, replaced and deleted by one service."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.control.base import Object, PolicyRepositoryProtocol, Tags
from gateway.control.kinds import SHAPES, noun, stored_form
from gateway.control.received import ParsedBody, alias_of, keep_resources, received, require_alias
from gateway.control.references import referrers
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.errors import Conflict, FieldError, InvalidObject, NotFound
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.files import PolicyEntry

SHOWN = 5  # referrers that a message names


class Objects:
    """The objects of a workspace. Another workspace's are not there."""

    def __init__(self, book: PolicyRepositoryProtocol, desk: PolicyWriter) -> None:
        self._book = book
        self._desk = desk

    def every(self, workspace: str, kind: str, word: str = "") -> Sequence[Object]:
        """Every object of a kind whose alias, name or description holds the word, by alias."""
        drafts = self.drafts(workspace, kind)
        entries = self._book.entries(workspace)[kind].values()
        found = [_object(kind, entry, drafts) for entry in entries if _fits(entry, word.casefold())]
        return sorted(found, key=lambda one: one.alias)

    def get(self, workspace: str, kind: str, name: str) -> Object:
        """One object by its alias or id; raises NotFound."""
        found = self.find(workspace, kind, name)
        if found is None:
            raise NotFound(f"There is no {noun(kind)} {name!r}.")
        return found

    def find(self, workspace: str, kind: str, name: str) -> Object | None:
        """One object by its alias or id, if there is one."""
        known = self._book.entries(workspace)[kind]
        entry = known.get(name) or next((one for one in known.values() if one.record and one.record.id == name), None)
        return None if entry is None else _object(kind, entry, self.drafts(workspace, kind))

    def drafts(self, workspace: str, kind: str) -> dict[str, Record]:
        """The drafts of a kind by alias."""
        stored = self._book.stored(f"draft:{kind}")
        return {record.key.alias: record for record in stored if record.key.workspace == workspace}

    def draft_changes(self, workspace: str) -> dict[tuple[str, str], Any]:
        """Every draft of a workspace as `trial` takes it."""
        return {
            (kind, alias): orjson.loads(record.body or b"{}")
            for kind in SHAPES
            for alias, record in self.drafts(workspace, kind).items()
        }

    async def create(self, caller: Principal, kind: str, sent: Any) -> Object:
        """A new object; raises Conflict if its alias is taken."""
        alias, given = alias_of(sent), received(kind, sent)
        async with self._desk.turn(caller.workspace):
            taken = self.find(caller.workspace, kind, alias)
            if taken is not None and taken.alias == alias:
                where = f" in the file {taken.file}" if taken.file else ""
                raise Conflict(f"There is a {noun(kind)} {alias!r} already{where}.")
            await self.check(caller.workspace, kind, alias, given)
            change = Change(kind, alias, stored_form(kind, alias, given.data), None)
            await self._desk.commit(caller, "create", [change])
        return self.get(caller.workspace, kind, alias)

    async def update(self, caller: Principal, kind: str, name: str, sent: Any, tags: Tags = None) -> Object:
        """Replace an object; a context keeps its resources unless others are sent."""
        given = received(kind, sent)
        async with self._desk.turn(caller.workspace):
            current = self.get(caller.workspace, kind, name)
            current.require(tags)
            former = current.own()
            require_alias(current.alias, sent)
            keep_resources(given, current.data)
            await self.check(caller.workspace, kind, current.alias, given)
            body = stored_form(kind, current.alias, given.data)
            if orjson.dumps(body) != former.body:
                await self._desk.commit(caller, "update", [Change(kind, current.alias, body, former)], tags)
        return self.get(caller.workspace, kind, current.alias)

    async def delete(self, caller: Principal, kind: str, name: str, tags: Tags = None) -> None:
        """Delete an object and its draft; raises Conflict while something refers to it."""
        async with self._desk.turn(caller.workspace):
            current = self.get(caller.workspace, kind, name)
            current.require(tags)
            changes = [Change(kind, current.alias, None, current.own())]
            self._require_unused(caller.workspace, current)
            await self._desk.tried(caller.workspace, {(kind, current.alias): None})
            draft = self.drafts(caller.workspace, kind).get(current.alias)
            if draft is not None:
                changes.append(Change(f"draft:{kind}", current.alias, None, draft))
            await self._desk.commit(caller, "delete", changes, tags)

    async def check(self, workspace: str, kind: str, alias: str, given: ParsedBody) -> None:
        """Raise Invalid with everything that is wrong with what was sent."""
        wrong, tried = list(given.faults), given.data
        former = self.default(workspace) if kind == "contexts" and given.data.get("default") is True else None
        if former is not None and former.alias != alias:
            wrong.append(FieldError("/default", f"{former.alias!r} is the global default already; use set-global"))
            tried = {**tried, "default": False}
        try:
            await self._desk.tried(workspace, {(kind, alias): tried}, given.point)
        except InvalidObject as invalid:
            wrong += invalid.faults
        if wrong:
            raise InvalidObject("What was sent is faulty: nothing was changed.", wrong)

    def default(self, workspace: str) -> Object | None:
        """The global default context."""
        return next((one for one in self.every(workspace, "contexts") if one.data.get("default") is True), None)

    def _require_unused(self, workspace: str, current: Object) -> None:
        users = list(referrers(self._book.entries(workspace), current.kind, current.alias))
        if users:
            more = f" and {len(users) - SHOWN} more" if len(users) > SHOWN else ""
            raise Conflict(f"{current.alias!r} is used by {', '.join(users[:SHOWN])}{more}.")


@dataclass(frozen=True, slots=True)
class Alike:
    """The objects of one kind, as those who work on one kind at a time want them."""

    kind: str
    objects: Objects

    def find(self, workspace: str, name: str) -> Object | None:
        return self.objects.find(workspace, self.kind, name)

    async def check(self, workspace: str, alias: str, body: dict[str, Any]) -> None:
        await self.objects.check(workspace, self.kind, alias, received(self.kind, body))


def _object(kind: str, entry: PolicyEntry, drafts: dict[str, Record]) -> Object:
    file = str(entry.place) if entry.record is None else None
    data = entry.data if isinstance(entry.data, dict) else {}
    return Object(kind, entry.alias, data, entry.record, file, entry.alias in drafts)


def _fits(entry: PolicyEntry, word: str) -> bool:
    data = entry.data if isinstance(entry.data, dict) else {}
    texts = (entry.alias, data.get("name") or title_from_alias(entry.alias), data.get("description"))
    return any(word in str(text).casefold() for text in texts if text is not None)
