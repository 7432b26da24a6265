"""API keys: create, list, change and revoke them, never beyond what the caller's own key may do."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import msgspec
import orjson

from gateway.control.authorship import Tags, make_author
from gateway.control.key_history import KeyRepository, remember_keys
from gateway.control.key_names import KeyNames, NamedKey
from gateway.control.key_shape import (
    KIND,
    KeyInfo,
    KeyShape,
    KeySpec,
    LimitsShape,
    make_configured_principal,
    make_stored_principal,
    parse_key_record,
    to_datetime,
)
from gateway.domain.principal import ANONYMOUS, ANY_GROUP, Principal
from gateway.domain.record import Author, Record, RecordKey, RecordWrite
from gateway.errors import Conflict, FieldError, Forbidden, InvalidObject, NotFound, PreconditionFailed, VersionConflict
from gateway.settings import KeySettings

KEY_PREFIX = "cgw_"
SECRET_BYTES = 32  # 43 characters of base64


class CreatedKey(msgspec.Struct, frozen=True):
    """A key that was just created; `secret` is not stored anywhere."""

    info: KeyInfo
    secret: str


class KeySelection(NamedTuple):
    """Some of the keys of a workspace."""

    keys: list[KeyInfo]
    total: int


class Keys:
    """The keys of a workspace, as far as a caller may see and change them."""

    def __init__(
        self,
        repository: KeyRepository,
        configured: Sequence[KeySettings] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._repository = repository
        self._configured = [KeyInfo(make_configured_principal(key), None) for key in configured]
        self._clock = clock
        self._names = KeyNames()

    def list_all(self, workspace: str) -> list[KeyInfo]:
        """All keys of a workspace: those of the configuration first, then the stored ones by name."""
        return self.list_page(workspace, lambda id, name: True, 0, None).keys

    def list_page(
        self, workspace: str, accepts: Callable[[str, str], bool], skip: int, take: int | None
    ) -> KeySelection:
        """Some of the keys whose id and name are accepted; only these are parsed. None: all from there."""
        configured = [key for key in self._list_configured(workspace) if accepts(key.id, key.principal.name)]
        stored = [key for key in self._list_stored(workspace) if accepts(key.id, key.name)]
        end = len(configured) + len(stored) if take is None else skip + take
        past = max(0, skip - len(configured))
        page = [*configured[skip:end], *map(_parse_key, stored[past : max(0, end - len(configured))])]
        return KeySelection(page, len(configured) + len(stored))

    def get(self, workspace: str, id: str) -> KeyInfo:
        """One key; raises NotFound, also for those of other workspaces."""
        configured = (key for key in self._list_configured(workspace) if key.id == id)
        stored = (_parse_key(key) for key in self._list_stored(workspace) if key.id == id)
        for key in chain(configured, stored):
            return key
        raise NotFound(f"There is no key {id!r}.")

    async def create(self, caller: Principal, spec: KeySpec, workspace: str | None = None) -> CreatedKey:
        """Create a key in the caller's workspace; raises Forbidden for more than the caller has."""
        spec = self._complete(caller, spec, workspace or caller.workspace)
        self._require_free_name(caller.workspace, spec.name, None)
        secret = KEY_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        key = RecordKey(caller.workspace, KIND, f"key-{secrets.token_hex(6)}")
        body = _make_body(spec, sha256(secret.encode()).hexdigest())
        write = RecordWrite(key, _encode(body), expected=0, changes=_encode_changes(None, spec))
        (record,) = await self._commit(write, make_author(caller, "create"), None)
        return CreatedKey(KeyInfo.from_record(record, body), secret)

    async def update(self, caller: Principal, id: str, spec: KeySpec, tags: Tags = None) -> KeyInfo:
        """Replace what a key may do; its secret and its workspace stay."""
        record = self._get_changeable(caller, id, tags)
        spec = self._complete(caller, spec, caller.workspace)
        self._require_free_name(caller.workspace, spec.name, id)
        former = parse_key_record(record)
        body = _make_body(spec, former.sha256)
        write = RecordWrite(record.key, _encode(body), expected=record.version, changes=_encode_changes(former, spec))
        (record,) = await self._commit(write, make_author(caller, "update"), tags)
        return KeyInfo.from_record(record, body)

    async def revoke(self, caller: Principal, id: str, tags: Tags = None) -> None:
        """Revoke a key for good."""
        record = self._get_changeable(caller, id, tags)
        changes = _encode_changes(parse_key_record(record), None)
        write = RecordWrite(record.key, None, expected=record.version, changes=changes)
        await self._commit(write, make_author(caller, "delete"), tags)

    def _list_configured(self, workspace: str) -> list[KeyInfo]:
        return [key for key in self._configured if key.principal.workspace == workspace]

    def _list_stored(self, workspace: str) -> Sequence[NamedKey]:
        return self._names.list_sorted(self._repository.list_records(KIND), workspace)

    def _get_changeable(self, caller: Principal, id: str, tags: Tags) -> Record:
        """A stored key that is no more powerful than the caller and has one of the tags."""
        key = self.get(caller.workspace, id)
        if key.record is None:
            raise Conflict(f"The key {id!r} is defined in the configuration under auth.keys; change it there.")
        require_grantable(caller, key.principal)
        if tags is not None and not tags & {key.tag, "*"}:
            message = f"The key {id!r} has changed and is at version {key.record.version} now."
            raise PreconditionFailed(f"{message} Read it again and retry.")
        return key.record

    def _complete(self, caller: Principal, spec: KeySpec, workspace: str) -> KeySpec:
        """The spec with defaults from the caller; raises Forbidden for more than the caller has."""
        spec = fill_from_caller(caller, spec)
        wanted = make_stored_principal("", workspace, spec)
        if wanted.expires is not None and wanted.expires <= self._clock():
            message = "must be in the future"
            raise InvalidObject(f"expires_at {message}.", [FieldError("/expires_at", message)])
        require_grantable(caller, wanted)
        return spec

    def _require_free_name(self, workspace: str, name: str | None, own: str | None) -> None:
        """Names are unique only so that logs are readable; nothing else depends on it."""
        taken = {key.principal.name for key in self._list_configured(workspace) if key.id != own}
        taken |= {key.name for key in self._list_stored(workspace) if key.id != own}
        if name is not None and (name in taken or name == ANONYMOUS.name):
            raise Conflict(f"Another key is named {name!r}.")

    async def _commit(self, write: RecordWrite, author: Author, tags: Tags) -> list[Record]:
        """Store one key, and with it that there was one."""
        writes = [write, *remember_keys(self._repository)]
        try:
            return (await self._repository.commit(writes, author))[:1]
        except VersionConflict as conflict:
            message = "The key was changed by someone else in the meantime. Read it again and retry."
            raise (Conflict if tags is None else PreconditionFailed)(message) from conflict


def require_grantable(holder: Principal, wanted: Principal) -> None:
    """Raise Forbidden, naming the field, if `wanted` has something that `holder` lacks."""
    for field, reason in list_excesses(holder, wanted):
        raise Forbidden(f"{field}: {reason}", param=field)


def list_excesses(holder: Principal, wanted: Principal) -> Iterator[tuple[str, str]]:
    """Field and reason for everything that `wanted` has beyond `holder`."""
    if wanted.workspace != holder.workspace:
        yield "workspace", "keys can only be created in your own workspace."
    if not holder.role.covers(wanted.role):
        yield "role", f"your key has the role {holder.role}, which does not include {wanted.role}."
    yield from _list_agent_excesses(holder, wanted)
    if ANY_GROUP not in holder.groups and (more := sorted(wanted.groups - holder.groups)):
        yield "groups", f"your key is not in {', '.join(map(repr, more))}."
    if holder.tier is not None and wanted.tier != holder.tier:
        yield "tier", f"your key has the tier {holder.tier!r} and can grant no other."
    yield from _list_pattern_excesses("models", holder.models, wanted.models, holder.may_call)
    yield from _list_pattern_excesses("tools", holder.tools, wanted.tools, holder.may_use_tool)
    if limit_as_number(wanted.limits.requests) > limit_as_number(holder.limits.requests):
        yield "limits.requests", f"your key is limited to {holder.limits.requests} requests per minute."
    if limit_as_number(wanted.limits.tokens) > limit_as_number(holder.limits.tokens):
        yield "limits.tokens", f"your key is limited to {holder.limits.tokens} tokens per minute."
    if wanted.may_act_for_users and not holder.may_act_for_users:
        yield "act_for_users", "your key may not act for users itself."
    if limit_as_number(wanted.expires) > limit_as_number(holder.expires):
        yield "expires_at", "your key expires, and this one must not outlive it."


def limit_as_number(limit: float | None) -> float:
    """A limit for comparison; no limit is infinite."""
    return inf if limit is None else limit


def _list_pattern_excesses(
    field: str, own: frozenset[str] | None, wanted: frozenset[str] | None, may_use: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    if own is not None and wanted is None:
        yield field, f"your key may use only some {field}; list those that this one may use."
    # A pattern that another one matches as it is written covers nothing more than that one.
    elif more := sorted(pattern for pattern in wanted or () if not may_use(pattern)):
        yield field, f"your key may not use {', '.join(map(repr, more))}."


def _list_agent_excesses(holder: Principal, wanted: Principal) -> Iterator[tuple[str, str]]:
    if holder.agents is not None:
        if wanted.agents is None:
            yield "agents", "your key may use only some agents; list those that this one may use."
        elif more := sorted(agent for agent in wanted.agents if not holder.may_use(agent)):
            yield "agents", f"your key may not use {', '.join(map(repr, more))}."
        if wanted.agent_optional and holder.needs_agent:
            yield "agent_optional", "your key may not send requests without an agent."
    # A bound agent cannot be dropped: a key without it would escape what the agent makes mandatory.
    if holder.agent is not None and wanted.agent != holder.agent:
        yield "agent", f"your key is bound to the agent {holder.agent!r}, and so is every key that it creates."
    elif wanted.agent is not None and not holder.may_use(wanted.agent):
        yield "agent", f"your key may not use {wanted.agent!r}."


def fill_from_caller(caller: Principal, spec: KeySpec) -> KeySpec:
    """Where the caller is restricted, what the spec leaves out is as in the caller's key."""
    given = spec.model_fields_set
    limits, own = spec.limits, caller.limits
    changes: dict[str, Any] = {
        "limits": LimitsShape(
            requests=limits.requests if "requests" in limits.model_fields_set else own.requests,
            tokens=limits.tokens if "tokens" in limits.model_fields_set else own.tokens,
        )
    }
    if "agents" not in given and caller.agents is not None:
        changes["agents"] = sorted(caller.agents)
    if "models" not in given and caller.models is not None:
        changes["models"] = sorted(caller.models)
    if "tools" not in given and caller.tools is not None:
        changes["tools"] = sorted(caller.tools)
    for field, value in (("agent", caller.agent), ("tier", caller.tier), ("expires_at", to_datetime(caller.expires))):
        if field not in given:
            changes[field] = value
    return spec.model_copy(update=changes)


def _parse_key(key: NamedKey) -> KeyInfo:
    return KeyInfo.from_record(key.record, parse_key_record(key.record))


def _make_body(spec: KeySpec, digest: str) -> KeyShape:
    return KeyShape(**{name: getattr(spec, name) for name in KeySpec.model_fields}, sha256=digest)


def _encode(body: KeyShape) -> bytes:
    return body.model_dump_json().encode()


def _encode_changes(former: KeySpec | None, spec: KeySpec | None) -> bytes:
    """For the audit: every field that differs, but never the hash."""
    before, after = (_dump(one) if one is not None else {} for one in (former, spec))
    differing = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return orjson.dumps(
        [{"pointer": f"/{name}", "from": before.get(name), "to": after.get(name)} for name in differing]
    )


def _dump(spec: KeySpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", include=set(KeySpec.model_fields))
