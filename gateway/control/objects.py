"""Contexts, profiles, agents, prompts and recipes: one service to find, create, save and delete them."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import orjson

from gateway.control.authorship import Tags
from gateway.control.object_bodies import (
    SHAPES,
    ParsedBody,
    find_changed_types,
    get_alias,
    keep_resources,
    kind_name,
    make_stored_body,
    parse_body,
    require_same_alias,
)
from gateway.control.usage import list_referrers
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.errors import Conflict, FieldError, InvalidObject, NotFound, PreconditionFailed
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.files import PolicyEntry
from gateway.policies.record_ids import is_object_id, read_creation_time
from gateway.policies.repository import PolicyRepository

DRAFT_SUFFIX = "-d"  # of the tag of an object that has a draft
MOST_REFERRERS = 5  # that a message names


class PolicyObject(msgspec.Struct, frozen=True):
    """One object as a reader sees it."""

    kind: str
    alias: str
    data: Mapping[str, Any]
    record: Record | None  # None: it is defined in a file
    file: str | None = None  # "brand.yaml:12"
    draft: bool = False  # whether it has a draft
    shadows: str | None = None  # the place in a file from which it was adopted

    @property
    def id(self) -> str:
        return self.alias if self.record is None else self.record.id

    @property
    def version(self) -> int:
        return 0 if self.record is None else self.record.version

    @property
    def created(self) -> float | None:
        """When it was created, in seconds since 1970, if its id tells."""
        return None if self.record is None else read_creation_time(self.record)

    @property
    def tag(self) -> str:
        """Changes with everything that a reader sees."""
        body = self.record.body if self.record is not None else orjson.dumps(self.data)
        return f"{self.version}-{sha256(body or b'').hexdigest()[:8]}{DRAFT_SUFFIX if self.draft else ''}"

    def require_tag(self, tags: Tags) -> None:
        """Raise PreconditionFailed unless it has one of the tags; whether it has a draft makes no difference."""
        if tags is None or "*" in tags:
            return
        if self.tag.removesuffix(DRAFT_SUFFIX) not in {tag.removesuffix(DRAFT_SUFFIX) for tag in tags}:
            message = f"{self.kind}/{self.alias} has changed and is at version {self.version} now."
            raise PreconditionFailed(f"{message} Read it again and retry.")

    def get_record(self) -> Record:
        """Its record; raises Conflict for an object that is defined in a file."""
        if self.record is None:
            where = f"{self.kind}/{self.alias} is defined in the file {self.file}"
            raise Conflict(f"{where}; change it there, or adopt it first.")
        return self.record

    def require_writable(self, tags: Tags) -> Record:
        """Its record; raises PreconditionFailed unless it has one of the tags, Conflict if it is defined in a file."""
        self.require_tag(tags)
        return self.get_record()


class SavedObject(NamedTuple):
    """What was saved, and whether it is new."""

    object: PolicyObject
    created: bool


class Objects:
    """The objects of each workspace; those of other workspaces do not exist for a caller."""

    def __init__(self, policies: PolicyRepository, writer: PolicyWriter) -> None:
        self._policies = policies
        self._writer = writer

    def list_all(self, workspace: str, kind: str, word: str = "") -> Sequence[PolicyObject]:
        """Every object of a kind whose alias, name or description contains the word, by name."""
        drafts = self.drafts(workspace, kind)
        entries = self._policies.entries(workspace)[kind].values()
        found = [self._make_object(kind, entry, drafts) for entry in entries if _matches(entry, word.casefold())]
        return sorted(found, key=lambda one: (_get_name(one).casefold(), one.alias))

    def get(self, workspace: str, kind: str, name: str) -> PolicyObject:
        """One object by its alias or id; raises NotFound."""
        found = self.find(workspace, kind, name)
        if found is None:
            raise NotFound(f"There is no {kind_name(kind)} {name!r}.")
        return found

    def find(self, workspace: str, kind: str, name: str) -> PolicyObject | None:
        """One object by its alias or id, if it exists."""
        known = self._policies.entries(workspace)[kind]
        entry = known.get(name) or next((one for one in known.values() if one.record and one.record.id == name), None)
        return None if entry is None else self._make_object(kind, entry, self.drafts(workspace, kind))

    def find_default(self, workspace: str) -> PolicyObject | None:
        """The global default context, if there is one."""
        return next((one for one in self.list_all(workspace, "contexts") if one.data.get("default") is True), None)

    def drafts(self, workspace: str, kind: str) -> dict[str, Record]:
        """The drafts of a kind by alias."""
        records = self._policies.list_records(f"draft:{kind}")
        return {record.key.alias: record for record in records if record.key.workspace == workspace}

    def draft_changes(self, workspace: str) -> dict[tuple[str, str], Any]:
        """Every draft of a workspace in the form that `PolicyRepository.trial` takes."""
        return {
            (kind, alias): orjson.loads(record.body or b"{}")
            for kind in SHAPES
            for alias, record in self.drafts(workspace, kind).items()
        }

    async def create(self, caller: Principal, kind: str, sent: Any) -> PolicyObject:
        """Create an object; raises Conflict if its alias is taken."""
        alias, parsed = get_alias(sent), parse_body(kind, sent)
        async with self._writer.lock(caller.workspace):
            taken = self.find(caller.workspace, kind, alias)
            if taken is not None and taken.alias == alias:
                where = f" in the file {taken.file}" if taken.file else ""
                raise Conflict(f"The {kind_name(kind)} {alias!r} already exists{where}.")
            return await self._create(caller, kind, alias, parsed)

    async def save(
        self, caller: Principal, kind: str, name: str, sent: Any, tags: Tags = None, *, only_new: bool = False
    ) -> SavedObject:
        """Replace an object unless it has to be new, or create it if there is none and no tag was expected.

        A context keeps its resources unless others are sent.
        """
        parsed = parse_body(kind, sent)
        async with self._writer.lock(caller.workspace):
            current = self.find(caller.workspace, kind, name)
            if current is None and tags is None and not is_object_id(name):
                require_same_alias(name, sent)
                return SavedObject(await self._create(caller, kind, name, parsed), True)
            current = current or self.get(caller.workspace, kind, name)
            if only_new:
                raise PreconditionFailed(f"{kind}/{current.alias} exists already.")
            former = current.require_writable(tags)
            require_same_alias(current.alias, sent)
            keep_resources(parsed, current.data)
            parsed.faults.extend(find_changed_types(parsed, current.data))
            await self.check(caller.workspace, kind, current.alias, parsed)
            body = make_stored_body(kind, current.alias, parsed.data)
            if orjson.dumps(body) != former.body:
                await self._writer.commit(caller, "update", [Change(kind, current.alias, body, former)], tags)
        return SavedObject(self.get(caller.workspace, kind, current.alias), False)

    async def _create(self, caller: Principal, kind: str, alias: str, parsed: ParsedBody) -> PolicyObject:
        """Create an object whose alias is free, while the workspace is locked."""
        await self.check(caller.workspace, kind, alias, parsed)
        change = Change(kind, alias, make_stored_body(kind, alias, parsed.data), None)
        await self._writer.commit(caller, "create", [change])
        return self.get(caller.workspace, kind, alias)

    async def delete(self, caller: Principal, kind: str, name: str, tags: Tags = None) -> None:
        """Delete an object and its draft; raises Conflict while another object refers to it."""
        async with self._writer.lock(caller.workspace):
            current = self.get(caller.workspace, kind, name)
            changes = [Change(kind, current.alias, None, current.require_writable(tags))]
            if current.shadows is not None:
                message = f"{kind}/{current.alias} was adopted from the file {current.shadows}"
                raise Conflict(f"{message}; release it instead, and the file's entry is used again.")
            self._require_unused(caller.workspace, current)
            await self._writer.check(caller.workspace, {(kind, current.alias): None})
            draft = self.drafts(caller.workspace, kind).get(current.alias)
            if draft is not None:
                changes.append(Change(f"draft:{kind}", current.alias, None, draft))
            await self._writer.commit(caller, "delete", changes, tags)

    async def check(self, workspace: str, kind: str, alias: str, parsed: ParsedBody) -> None:
        """Raise InvalidObject with every fault of the body."""
        errors, data = list(parsed.faults), parsed.data
        former = self.find_default(workspace) if kind == "contexts" and data.get("default") is True else None
        if former is not None and former.alias != alias:
            errors.append(FieldError("/default", f"{former.alias!r} is already the global default; use set-global"))
            data = {**data, "default": False}
        try:
            await self._writer.check(workspace, {(kind, alias): data}, parsed.point)
        except InvalidObject as invalid:
            errors += invalid.faults
        if errors:
            raise InvalidObject("Validation failed; nothing was changed.", errors)

    def _make_object(self, kind: str, entry: PolicyEntry, drafts: Mapping[str, Record]) -> PolicyObject:
        data, drafted = entry.data if isinstance(entry.data, dict) else {}, entry.alias in drafts
        if entry.record is None:
            return PolicyObject(kind, entry.alias, data, None, str(entry.location), drafted)
        shadowed = self._policies.find_file_entry(kind, entry.alias)
        shadows = None if shadowed is None else str(shadowed.location)
        return PolicyObject(kind, entry.alias, data, entry.record, None, drafted, shadows)

    def _require_unused(self, workspace: str, current: PolicyObject) -> None:
        users = list(list_referrers(self._policies.entries(workspace), current.kind, current.alias))
        if users:
            more = f" and {len(users) - MOST_REFERRERS} more" if len(users) > MOST_REFERRERS else ""
            raise Conflict(f"{current.alias!r} is used by {', '.join(users[:MOST_REFERRERS])}{more}.")


class ObjectsOfKind(msgspec.Struct, frozen=True):
    """The objects of one kind, for services that work on one kind at a time."""

    kind: str
    objects: Objects

    def find(self, workspace: str, name: str) -> PolicyObject | None:
        return self.objects.find(workspace, self.kind, name)

    async def check(self, workspace: str, alias: str, body: dict[str, Any]) -> None:
        await self.objects.check(workspace, self.kind, alias, parse_body(self.kind, body))


def _get_name(found: PolicyObject) -> str:
    name = found.data.get("name") if isinstance(found.data, Mapping) else None
    return name if isinstance(name, str) and name else title_from_alias(found.alias)


def _matches(entry: PolicyEntry, word: str) -> bool:
    data = entry.data if isinstance(entry.data, dict) else {}
    texts = (entry.alias, data.get("name") or title_from_alias(entry.alias), data.get("description"))
    return any(word in str(text).casefold() for text in texts if text is not None)
