"""Where changes are made: one after another in a workspace, tried as a whole, then committed."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from gateway.control.base import PolicyRepositoryProtocol, Tags
from gateway.control.diff import bounded, differences
from gateway.control.pointers import pointer
from gateway.domain.principal import Principal
from gateway.domain.record import Author, Record, RecordKey, RecordWrite
from gateway.errors import Conflict, Fault, Faults, FieldError, InvalidObject, PreconditionFailed, VersionConflict
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore

TURN_SECONDS = 10.0  # after which the turn of a node that died is over
PATIENCE_SECONDS = 12.0  # that a change waits for its turn

Changes = Mapping[tuple[str, str], Any | None]  # (kind, alias) → data as it would stand in a policy file


@dataclass(frozen=True, slots=True)
class Change:
    """One object that is to be stored or, without a body, deleted."""

    kind: str
    alias: str
    body: Mapping[str, Any] | None
    former: Record | None  # the current record, which has to be the current one still
    id: str | None = None  # for one that comes back

    def write(self, workspace: str) -> RecordWrite:
        before = self.former.body if self.former is not None else None
        return RecordWrite(
            RecordKey(workspace, self.kind, self.alias),
            None if self.body is None else orjson.dumps(self.body),
            0 if self.former is None else self.former.version,
            self.id,
            bounded(differences(orjson.loads(before or b"{}"), self.body or {})),
        )


class PolicyWriter:
    """Shared by everything that changes policies, so that two changes never pass each other untried.

    Each change alone may be right and both together wrong: one deletes what the other begins to refer to.
    """

    def __init__(self, book: PolicyRepositoryProtocol, store: EphemeralStore) -> None:
        self._book = book
        self._store = store
        self._owner = secrets.token_hex(8)
        self._turns: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, workspace: str) -> AsyncIterator[None]:
        """Look, try and commit inside: others' changes are seen, and nobody on any node makes any meanwhile."""
        name = f"turn:{sha256(workspace.encode('utf-8', 'surrogatepass')).hexdigest()}"
        async with (
            self._turns.setdefault(workspace, asyncio.Lock()),
            Lease(self._store, name, self._owner, TURN_SECONDS).held(PATIENCE_SECONDS),
        ):
            await self._book.refresh()
            yield

    async def tried(self, workspace: str, changes: Changes, point: Callable[[Fault], FieldError] | None = None) -> None:
        """Raise Invalid with every fault that the changes would bring.

        Faults that other objects have already do not count: whoever mends them has to begin somewhere.
        """
        faults = await asyncio.to_thread(self._faults, workspace, changes)
        own = {f"{kind}/{alias}" for kind, alias in changes}
        foreign = [fault for fault in faults if fault.file not in own]
        if foreign:
            known = {str(fault) for fault in await asyncio.to_thread(self._faults, workspace, {})}
            faults = [fault for fault in faults if fault.file in own or str(fault) not in known]
        if faults:
            told = [(point or pointed)(one) if one.file in own else elsewhere(one) for one in faults]
            raise InvalidObject("The policies would be faulty: nothing was changed.", told)

    async def commit(
        self, caller: Principal, action: str, changes: Sequence[Change], tags: Tags = None
    ) -> list[Record]:
        """Store changes that were tried; one that somebody on another node overtook fails as a whole."""
        writes = [change.write(caller.workspace) for change in changes]
        try:
            return await self._book.commit(writes, Author(caller.name, action))
        except VersionConflict as conflict:
            kind, alias = conflict.key[1:]
            message = f"Somebody else changed {kind}/{alias} at the same moment. Read it again."
            raise (Conflict if tags is None else PreconditionFailed)(message) from conflict

    def _faults(self, workspace: str, changes: Changes) -> list[Fault]:
        try:
            self._book.trial(workspace, changes)
        except Faults as faults:
            return faults.faults
        return []


def pointed(fault: Fault) -> FieldError:
    """A fault of an object whose data is the body of the request."""
    return FieldError(pointer(fault.keys), fault.message)


def elsewhere(fault: Fault) -> FieldError:
    """A fault that a change brings about in another object."""
    return FieldError("", f"{fault.file}: {fault.path}: {fault.message}")
