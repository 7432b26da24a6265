"""API keys: made, listed, changed and revoked, never beyond what the caller's own key may do."""

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import orjson

from gateway.control.grants import ACT, require_within
from gateway.control.key_shape import (
    KIND,
    KeyShape,
    KeyWish,
    LimitsShape,
    configured_principal,
    moment,
    shape_of,
    stored_principal,
)
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.record import Author, Record, RecordKey, RecordWrite
from gateway.errors import Conflict, FieldError, InvalidObject, NotFound, PreconditionFailed, VersionConflict
from gateway.settings import KeySettings as ConfiguredKey

PREFIX = "cgw_"
SECRET_BYTES = 32  # 43 characters of base64

Tags = frozenset[str] | None  # of which a key must have one; "*": any; None: whatever it has


class KeyRepository(Protocol):
    """Where keys are kept."""

    def stored(self, kind: str) -> Iterable[Record]:
        """The current records of a kind, of all workspaces."""
        ...

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        """Make all changes or none; raises VersionConflict."""
        ...


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key as it may be shown: never the key itself, nor its hash."""

    principal: Principal
    record: Record | None  # None: it stands in the configuration

    @property
    def id(self) -> str:
        return self.principal.key or ""

    @property
    def data(self) -> dict[str, Any]:
        """Everything that may be told about it, as JSON has it."""
        holder, record = self.principal, self.record
        return {
            "id": self.id,
            "name": holder.name,
            "workspace": holder.workspace,
            "role": holder.role.value,
            "agents": None if holder.agents is None else sorted(holder.agents),
            "agent": holder.agent,
            "groups": sorted(holder.groups),
            "tier": holder.tier,
            "limits": {"requests": holder.limits.requests, "tokens": holder.limits.tokens},
            "act_for_users": ACT in holder.rights,
            "expires_at": told(holder.expires),
            "source": "config" if record is None else "store",
            "version": 0 if record is None else record.version,
            "updated_at": None if record is None else told(record.at),
            "updated_by": None if record is None else record.by,
        }

    @property
    def tag(self) -> str:
        """Changes with everything that a reader sees."""
        data = self.data
        return f"{data['version']}-{sha256(orjson.dumps(data)).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A key that was just made; `secret` is not kept anywhere."""

    held: KeyInfo
    secret: str


class Keys:
    """The keys of a workspace, as far as a caller may see and change them."""

    def __init__(
        self, book: KeyRepository, configured: Sequence[ConfiguredKey] = (), clock: Callable[[], float] = time.time
    ) -> None:
        self._book = book
        self._configured = [KeyInfo(configured_principal(key), None) for key in configured]
        self._clock = clock

    def of(self, workspace: str) -> list[KeyInfo]:
        """All keys of a workspace: those of the configuration first, then the stored ones by name."""
        configured = [held for held in self._configured if held.principal.workspace == workspace]
        return configured + sorted(self._stored(workspace), key=lambda held: (held.principal.name, held.id))

    def get(self, workspace: str, id: str) -> KeyInfo:
        """One key; raises NotFound, for those of other workspaces too."""
        for held in self.of(workspace):
            if held.id == id:
                return held
        raise NotFound(f"There is no key {id!r}.")

    async def create(self, caller: Principal, wish: KeyWish, workspace: str | None = None) -> CreatedKey:
        """A new key in the caller's workspace; raises Forbidden for more than the caller has."""
        wish = self._granted(caller, wish, workspace or caller.workspace)
        self._require_free(caller.workspace, wish.name, None)
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        key = RecordKey(caller.workspace, KIND, f"key-{secrets.token_hex(6)}")
        body = _body(wish, sha256(secret.encode()).hexdigest())
        write = RecordWrite(key, _encoded(body), expected=0, changes=_changes(None, wish))
        (record,) = await self._book.commit([write], Author(caller.name, "create"))
        return CreatedKey(_held(record, body), secret)

    async def update(self, caller: Principal, id: str, wish: KeyWish, tags: Tags = None) -> KeyInfo:
        """Replace what a key may do; its secret and its workspace stay."""
        record = self._own(caller, id, tags)
        wish = self._granted(caller, wish, caller.workspace)
        self._require_free(caller.workspace, wish.name, id)
        former = shape_of(record)
        body = _body(wish, former.sha256)
        write = RecordWrite(record.key, _encoded(body), expected=record.version, changes=_changes(former, wish))
        (record,) = await self._commit(write, Author(caller.name, "update"), tags)
        return _held(record, body)

    async def revoke(self, caller: Principal, id: str, tags: Tags = None) -> None:
        """End a key for good."""
        record = self._own(caller, id, tags)
        write = RecordWrite(record.key, None, expected=record.version, changes=_changes(shape_of(record), None))
        await self._commit(write, Author(caller.name, "delete"), tags)

    def _stored(self, workspace: str) -> Iterable[KeyInfo]:
        for record in self._book.stored(KIND):
            if record.key.workspace == workspace and record.body is not None:
                yield _held(record, shape_of(record))

    def _own(self, caller: Principal, id: str, tags: Tags) -> Record:
        """A stored key that is no more powerful than the caller and has one of the tags."""
        held = self.get(caller.workspace, id)
        if held.record is None:
            raise Conflict(f"The key {id!r} stands in the configuration under auth.keys; change it there.")
        require_within(caller, held.principal)
        if tags is not None and not tags & {held.tag, "*"}:
            raise PreconditionFailed(f"The key {id!r} is at version {held.record.version} by now. Read it again.")
        return held.record

    def _granted(self, caller: Principal, wish: KeyWish, workspace: str) -> KeyWish:
        """The wish with everything unsaid filled in from the caller; raises Forbidden for more than it has."""
        wish = filled(caller, wish)
        wanted = stored_principal("", workspace, wish)
        if wanted.expires is not None and wanted.expires <= self._clock():
            message = "must lie in the future"
            raise InvalidObject(f"expires_at {message}.", [FieldError("/expires_at", message)])
        require_within(caller, wanted)
        return wish

    def _require_free(self, workspace: str, name: str | None, own: str | None) -> None:
        """Names need not be unique for safety, only so that logs can be read."""
        taken = {held.principal.name for held in self.of(workspace) if held.id != own}
        if name is not None and (name in taken or name == ANONYMOUS.name):
            raise Conflict(f"Another key is called {name!r}.")

    async def _commit(self, write: RecordWrite, author: Author, tags: Tags) -> list[Record]:
        try:
            return await self._book.commit([write], author)
        except VersionConflict as conflict:
            message = "Somebody else changed this key at the same moment. Read it again."
            raise (Conflict if tags is None else PreconditionFailed)(message) from conflict


def filled(caller: Principal, wish: KeyWish) -> KeyWish:
    """What the wish does not mention is as the caller has it, where the caller is restricted."""
    said = wish.model_fields_set
    limits, own = wish.limits, caller.limits
    changes: dict[str, Any] = {
        "limits": LimitsShape(
            requests=limits.requests if "requests" in limits.model_fields_set else own.requests,
            tokens=limits.tokens if "tokens" in limits.model_fields_set else own.tokens,
        )
    }
    if "agents" not in said and caller.agents is not None:
        changes["agents"] = sorted(caller.agents)
    for field, value in (("agent", caller.agent), ("tier", caller.tier), ("expires_at", moment(caller.expires))):
        if field not in said:
            changes[field] = value
    return wish.model_copy(update=changes)


def told(seconds: float | None) -> str | None:
    """A moment in RFC 3339."""
    at = moment(seconds)
    return None if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _held(record: Record, wish: KeyWish) -> KeyInfo:
    return KeyInfo(stored_principal(record.key.alias, record.key.workspace, wish), record)


def _body(wish: KeyWish, digest: str) -> KeyShape:
    return KeyShape(**{name: getattr(wish, name) for name in KeyWish.model_fields}, sha256=digest)


def _encoded(body: KeyShape) -> bytes:
    return body.model_dump_json().encode()


def _changes(former: KeyWish | None, wish: KeyWish | None) -> bytes:
    """What the audit remembers: every field that differs, but never the hash."""
    before, after = (_told(one) if one is not None else {} for one in (former, wish))
    differing = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return orjson.dumps(
        [{"pointer": f"/{name}", "from": before.get(name), "to": after.get(name)} for name in differing]
    )


def _told(wish: KeyWish) -> dict[str, Any]:
    return wish.model_dump(mode="json", include=set(KeyWish.model_fields))
