"""Sessions as people manage them: whose they are, what is in them, what holds for them."""

import msgspec
from msgspec.structs import replace

from gateway.control.authorship import Tags
from gateway.domain.principal import Principal, Role
from gateway.domain.resource import Resource
from gateway.domain.session import LONGEST_ID, SessionKey, SessionRecord, SessionSettings
from gateway.errors import Forbidden, InvalidRequest, NotFound, PreconditionFailed, UserNotAllowed
from gateway.policies.repository import PolicyRepository
from gateway.scopes.session_scope import find_overlong_part
from gateway.sessions.changes import add_items, drop_ids, remove_items
from gateway.sessions.sessions import SessionRecordPage, Sessions
from gateway.stores.protocols import SessionOwner


class SessionOwnerChoice(msgspec.Struct, frozen=True):
    """Whose sessions a caller asks for; None: its own."""

    principal: str | None = None
    user: str | None = None


class SessionCondition(msgspec.Struct, frozen=True):
    """Which state of a session a caller means to change; by default any, and none too."""

    tags: Tags = None
    only_new: bool = False  # there must not be such a session yet

    def check(self, record: SessionRecord | None) -> None:
        if record is None and self.tags is not None:
            raise NotFound("There is no such session to change; omit If-Match to create it.")
        if record is not None and self.only_new:
            raise PreconditionFailed(f"The session {record.key.id!r} exists already.")
        if record is not None and self.tags is not None and not self.tags & {record.tag, "*"}:
            message = f"The session {record.key.id!r} has changed and is at version {record.version} now."
            raise PreconditionFailed(f"{message} Read it again and retry.")


ANY_STATE = SessionCondition()


class SessionItem(msgspec.Struct, frozen=True):
    """One resource that a session adds, keeps or leaves out."""

    id: str
    state: str  # "added", "retained" or "removed"
    resource: Resource | None  # None: it no longer exists, or the caller may not read it


class SessionManager:
    """A caller reaches the sessions of its own key; editors reach all of their workspace."""

    def __init__(self, sessions: Sessions, policies: PolicyRepository) -> None:
        self._sessions, self._policies = sessions, policies

    async def list_page(self, caller: Principal, choice: SessionOwnerChoice, skip: int, take: int) -> SessionRecordPage:
        """Sessions of the chosen owner; an editor who chooses nobody gets everybody's."""
        if caller.role.covers(Role.EDITOR):
            owner = SessionOwner(caller.workspace, choice.principal, choice.user)
        else:
            key = self.make_key(caller, choice, "")
            owner = SessionOwner(caller.workspace, key.principal, None if choice.user is None else key.user)
        return await self._sessions.list_records(owner, skip, take)

    async def get(self, key: SessionKey) -> SessionRecord:
        record = await self._sessions.find(key)
        if record is None:
            raise NotFound(f"There is no session {key.id!r}.")
        return record

    async def delete(self, key: SessionKey, condition: SessionCondition = ANY_STATE) -> None:
        version = None
        if condition.tags is not None:
            record = await self.get(key)
            condition.check(record)
            version = None if "*" in condition.tags else record.version
        if await self._sessions.delete(key, version):
            return
        if version is None:
            raise NotFound(f"There is no session {key.id!r}.")
        await self.delete(key, condition)  # somebody was quicker: what there is now is checked again

    async def configure(
        self, key: SessionKey, settings: SessionSettings, content: str | None, condition: SessionCondition = ANY_STATE
    ) -> SessionRecord:
        """Replace the settings and the current content; creates the session."""
        return await self._sessions.change(
            key, lambda session: replace(session, settings=settings, content=content), condition.check
        )

    async def add_item(
        self, caller: Principal, key: SessionKey, identity: str, condition: SessionCondition = ANY_STATE
    ) -> SessionRecord:
        self._require_visible(caller, key, identity)
        return await self._sessions.change(key, lambda session: add_items(session, [identity]), condition.check)

    async def remove_item(
        self, caller: Principal, key: SessionKey, identity: str, condition: SessionCondition = ANY_STATE
    ) -> SessionRecord:
        """Take a resource out; what no longer exists can be removed too."""
        snapshot = self._policies.get_snapshot(caller.workspace)
        session = (await self.get(key)).session
        if identity not in session.added and identity not in session.retained:
            self._require_visible(caller, key, identity)
        return await self._sessions.change(
            key, lambda session: remove_items(session, [identity], snapshot), condition.check
        )

    async def restore_item(
        self, key: SessionKey, identity: str, condition: SessionCondition = ANY_STATE
    ) -> SessionRecord:
        """Forget that a resource was removed by hand."""
        record = await self.get(key)
        if identity not in record.session.removed:
            raise NotFound(f"{identity!r} was not removed from the session.")
        return await self._sessions.change(
            key, lambda session: replace(session, removed=drop_ids(session.removed, [identity])), condition.check
        )

    def list_items(self, caller: Principal, record: SessionRecord) -> list[SessionItem]:
        session, snapshot = record.session, self._policies.get_snapshot(caller.workspace)
        states = (("added", session.added), ("retained", session.retained), ("removed", session.removed))
        readers = caller.readers(record.key.user or None)
        return [
            SessionItem(identity, state, snapshot.find_readable(identity, readers))
            for state, ids in states
            for identity in ids
        ]

    def make_key(self, caller: Principal, choice: SessionOwnerChoice, identity: str) -> SessionKey:
        """The key of a session; raises Forbidden for what is not the caller's."""
        own = caller.key or caller.name
        principal = choice.principal or own
        if not caller.role.covers(Role.EDITOR):
            if principal != own:
                raise Forbidden("This key reaches only its own sessions.")
            if choice.user and not caller.may_act_for_users:
                raise UserNotAllowed(param="user")
        key = SessionKey(caller.workspace, principal, choice.user or "", identity)
        if (name := find_overlong_part(key)) is not None:
            raise InvalidRequest(f"The {name} has at most {LONGEST_ID} characters.", param=name)
        return key

    def _require_visible(self, caller: Principal, key: SessionKey, identity: str) -> None:
        snapshot = self._policies.get_snapshot(caller.workspace)
        if snapshot.find_readable(identity, caller.readers(key.user or None)) is None:
            raise NotFound(f"There is no resource {identity!r}.")
