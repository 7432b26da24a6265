"""Makes changes to policies: one at a time in a workspace, checked as a whole, then committed."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from hashlib import sha256
from typing import Any

import msgspec
import orjson

from gateway.control.authorship import Tags, make_author
from gateway.control.diff import encode_for_audit, list_differences
from gateway.domain.principal import Principal
from gateway.domain.record import Record, RecordKey, RecordWrite
from gateway.errors import Conflict, Fault, Faults, FieldError, InvalidObject, PreconditionFailed, VersionConflict
from gateway.policies.repository import PolicyRepository
from gateway.policies.workspace import Changes
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore
from gateway.validation import format_pointer

LOCK_SECONDS = 10.0  # after which the lock of a replica that died expires
PATIENCE_SECONDS = 12.0  # how long a change waits for the lock
LOCK_NAME = "turn"  # in the store; all releases that run on one store must use the same


class Change(msgspec.Struct, frozen=True):
    """One object that is to be stored or, without a body, deleted."""

    kind: str
    alias: str
    body: Mapping[str, Any] | None
    former: Record | None  # the record that must still be the current one
    id: str | None = None  # for a deleted object that is restored

    def to_write(self, workspace: str) -> RecordWrite:
        before = self.former.body if self.former is not None else None
        return RecordWrite(
            RecordKey(workspace, self.kind, self.alias),
            None if self.body is None else orjson.dumps(self.body),
            0 if self.former is None else self.former.version,
            self.id,
            encode_for_audit(list_differences(orjson.loads(before or b"{}"), self.body or {})),
        )


class PolicyWriter:
    """Shared by everything that changes policies, so that no two changes are checked against the same state.

    Each change alone may be valid and both together not: one deletes what the other starts to refer to.
    """

    def __init__(
        self, policies: PolicyRepository, store: EphemeralStore, *, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._policies = policies
        self._store = store
        self._patience = patience
        self._owner = secrets.token_hex(8)
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def lock(self, workspace: str, *, renew: bool = False) -> AsyncIterator[None]:
        """Read, check and commit inside: the changes of others are known, and no replica makes any meanwhile.

        With `renew` that may take longer than LOCK_SECONDS.
        """
        name = f"{LOCK_NAME}:{sha256(workspace.encode('utf-8', 'surrogatepass')).hexdigest()}"
        lease = Lease(self._store, name, self._owner, LOCK_SECONDS)
        async with (
            self._locks.setdefault(workspace, asyncio.Lock()),
            lease.hold(self._patience),
            lease.keep_renewed() if renew else nullcontext(),
        ):
            await self._policies.refresh(workspace)
            yield

    async def check(self, workspace: str, changes: Changes, point: Callable[[Fault], FieldError] | None = None) -> None:
        """Raise InvalidObject with every fault that the changes would cause.

        Faults that other objects already have do not count: they could never be fixed one by one otherwise.
        """
        faults = await self._list_faults(workspace, changes)
        own = {f"{kind}/{alias}" for kind, alias in changes}
        if any(fault.file not in own for fault in faults):
            known = {str(fault) for fault in await self._list_faults(workspace, {})}
            faults = [fault for fault in faults if fault.file in own or str(fault) not in known]
        if faults:
            point = point or make_field_error
            errors = [point(fault) if fault.file in own else _make_foreign_error(fault) for fault in faults]
            raise InvalidObject("Validation failed; nothing was changed.", errors)

    async def commit(
        self, caller: Principal, action: str, changes: Sequence[Change], tags: Tags = None
    ) -> list[Record]:
        """Store checked changes; all fail if another replica has changed one of the objects meanwhile."""
        writes = [change.to_write(caller.workspace) for change in changes]
        try:
            return await self._policies.commit(writes, make_author(caller, action))
        except VersionConflict as conflict:
            kind, alias = conflict.key[1:]
            message = f"{kind}/{alias} was changed by someone else in the meantime. Read it again and retry."
            raise (Conflict if tags is None else PreconditionFailed)(message) from conflict

    async def _list_faults(self, workspace: str, changes: Changes) -> list[Fault]:
        try:
            await self._policies.try_changes(workspace, changes)
        except Faults as faults:
            return faults.faults
        return []


def make_field_error(fault: Fault) -> FieldError:
    """A fault of an object whose data is the body of the request."""
    return FieldError(format_pointer(fault.keys), fault.message)


def _make_foreign_error(fault: Fault) -> FieldError:
    """A fault that a change causes in another object."""
    return FieldError("", f"{fault.file}: {fault.path}: {fault.message}")
