"""The sessions of all workspaces: opened by requests, changed without losing what others change at the same time."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, MutableSet
from typing import Final, NamedTuple

import msgspec

from gateway.domain.lru import LruCache
from gateway.domain.scope import Scope
from gateway.domain.session import MAX_ITEMS, Session, SessionKey, SessionRecord, StickyPick
from gateway.errors import Conflict, InvalidRequest, QuotaExceeded, StoreError
from gateway.policies.quotas import Quotas
from gateway.sessions.changes import SessionChange, StickyChange, retain_items
from gateway.sessions.late_changes import LateChanges, Write
from gateway.settings import Settings
from gateway.stores.memory_sessions import MemorySessionStore
from gateway.stores.protocols import SessionOwner, SessionStore, StoredSession

ATTEMPTS: Final = 50  # at a change, while others change the same session
RENEWALS_PER_LIFE: Final = 10  # how often a session is kept alive that is only read
REMEMBERED: Final = 10_000
DAY_SECONDS: Final = 86_400.0
DEFAULT_SECONDS: Final = 30 * DAY_SECONDS
UNBOUNDED: Final = 2**63

Apply = Callable[[Session], Session]
Check = Callable[[SessionRecord | None], None]


def accept_any(record: SessionRecord | None) -> None:
    """Whatever state a session is in may be changed."""


class _Body(msgspec.Struct):
    created: float
    session: Session


_decode = msgspec.json.Decoder(_Body).decode
_encode = msgspec.json.Encoder().encode


NO_SESSION: Final = Session()


class SessionRecordPage(NamedTuple):
    """Some of an owner's sessions."""

    records: list[SessionRecord]
    total: int


class SessionUse(msgspec.Struct, frozen=True):
    """The session of one request."""

    key: SessionKey
    session: Session  # as it is stored
    is_stored: bool  # False: this is its first request
    current: Session = NO_SESSION  # with what the request adds and removes
    names_content: bool = False  # the request itself says what it is about
    is_lost: bool = False  # it could not be read; nothing is stored either


class Sessions:
    """Reads and changes sessions; `seconds` without any use end one."""

    def __init__(
        self,
        store: SessionStore | None = None,
        seconds: float = DEFAULT_SECONDS,
        clock: Callable[[], float] = time.time,
        get_quota: Callable[[str], int] = lambda _: UNBOUNDED,
        late: LateChanges | None = None,
    ) -> None:
        self._store, self._seconds, self._clock = store or MemorySessionStore(), seconds, clock
        self._get_quota = get_quota
        self._renewed: LruCache[SessionKey, float] = LruCache(REMEMBERED, REMEMBERED)
        self.late = late or LateChanges()

    async def open(self, key: SessionKey, degraded: MutableSet[str]) -> SessionUse:
        """The session for a request; one that cannot be read in time counts as empty, visibly."""
        try:
            async with asyncio.timeout(self.late.patience):
                stored = await self._store.get(key)
            known = decode_session(stored) if stored is not None else None
        except (StoreError, TimeoutError):
            degraded.add("session")
            return SessionUse(key, Session(), is_stored=False, is_lost=True)
        if stored is None or known is None:
            return SessionUse(key, Session(), is_stored=False)
        await self._renew(stored, degraded)
        return SessionUse(key, known.session, is_stored=True)

    async def save(self, use: SessionUse, apply: Apply, degraded: MutableSet[str]) -> None:
        """Store what a request changes, and its session if it is the first one; the request waits only a moment."""
        if use.is_lost or (use.is_stored and apply(use.session) == use.session):
            return
        try:
            in_time = await self._write(use.key, lambda: self.change(use.key, apply))
        except (Conflict, QuotaExceeded):
            in_time = False
        if not in_time:
            degraded.add("session")

    async def retain(self, use: SessionUse, fetched: Iterable[str], degraded: MutableSet[str]) -> None:
        """Keep what the model fetched for the requests to come."""
        ids = tuple(fetched)
        if ids:
            await self.save(use, lambda session: retain_items(session, ids), degraded)

    async def change(self, key: SessionKey, apply: Apply, check: Check = accept_any) -> SessionRecord:
        """Apply a change to the current state, as often as others get in between; creates the session.

        `check` sees the state that is changed, and raises if it is not the one that the caller means.
        """
        for attempt in range(ATTEMPTS):
            stored = await self._store.get(key)
            known = decode_session(stored) if stored is not None else None
            check(known)
            session = apply(known.session if known is not None else Session())
            check_size(session)
            if known is not None and session == known.session:
                return known
            if known is None:
                await self._check_quota(key.workspace)
            created = known.created if known is not None else self._clock()
            body = _encode(_Body(created, session))
            written = await self._store.put(key, body, known.version if known is not None else 0, self._seconds)
            if written is not None:
                return SessionRecord(key, written.version, session, created, written.updated)
            await asyncio.sleep(random.random() * 0.002 * attempt)
        raise Conflict(f"The session was changed by others {ATTEMPTS} times in a row. Try again.")

    async def find(self, key: SessionKey) -> SessionRecord | None:
        stored = await self._store.get(key)
        return None if stored is None else decode_session(stored)

    async def count(self, workspace: str) -> int:
        """How many sessions a workspace has."""
        return await self._store.count(workspace)

    async def delete(self, key: SessionKey, expected: int | None = None) -> bool:
        """End a session; False if there was none, or none of the expected version (None: any)."""
        return await self._store.delete(key, expected)

    async def list_records(self, owner: SessionOwner, skip: int, take: int) -> SessionRecordPage:
        """The owner's sessions, the last changed one first."""
        page = await self._store.list_sessions(owner, skip, take)
        return SessionRecordPage([decode_session(stored) for stored in page.sessions], page.total)

    async def _check_quota(self, workspace: str) -> None:
        quota = self._get_quota(workspace)
        if quota < UNBOUNDED and (used := await self._store.count(workspace)) >= quota:
            raise QuotaExceeded("sessions", quota, used, used + 1)

    async def _write(self, key: SessionKey, write: Write) -> bool:
        """Whether the store took a change in time; otherwise it is tried on without the request."""
        late = self.late
        if key not in late.queues:
            try:
                async with asyncio.timeout(late.patience):
                    await write()
                return True
            except asyncio.CancelledError:
                late.queue(key, write)
                raise
            except (StoreError, TimeoutError):
                pass
        late.queue(key, write)
        return False

    async def _renew(self, stored: StoredSession, degraded: MutableSet[str]) -> None:
        """Keep a session alive that is only read, now and then."""
        now = self._clock()
        last = max(stored.updated, self._renewed.get(stored.key) or 0.0)
        if now - last > self._seconds / RENEWALS_PER_LIFE:
            self._renewed.put(stored.key, now)
            if not await self._write(stored.key, lambda: self._store.renew(stored.key, self._seconds)):
                degraded.add("session")


def decode_session(stored: StoredSession) -> SessionRecord:
    """Raises StoreError for a body that this gateway cannot read."""
    try:
        body = _decode(stored.body)
    except msgspec.MsgspecError as error:
        raise StoreError("A stored session cannot be read.") from error
    return SessionRecord(stored.key, stored.version, body.session, body.created, stored.updated)


def check_size(session: Session) -> None:
    if len(session.added) > MAX_ITEMS or len(session.removed) > MAX_ITEMS:
        raise InvalidRequest(f"A session can have {MAX_ITEMS} items added and as many removed; delete some first.")


def open_sessions(settings: Settings, store: SessionStore) -> Sessions:
    """The sessions as the configuration wants them."""
    quotas = Quotas(settings.quotas)
    return Sessions(
        store,
        settings.sessions.days * DAY_SECONDS,
        get_quota=lambda workspace: quotas.get_limits(workspace).sessions,
    )


def find_session_change(
    scope: Scope, session: SessionUse, sticky: tuple[StickyPick, ...] | None = None
) -> SessionChange:
    """What a request changes in its session: items by name, picks, and the content if the request itself names one."""
    asked = scope.request
    content = scope.node.path if scope.node is not None and session.names_content else None
    picks = StickyChange(session.session.sticky, sticky) if sticky is not None else None
    return SessionChange(asked.pin, asked.unpin, content, picks)
