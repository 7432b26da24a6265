"""Sessions that are read, changed by several at once, kept alive, and lost."""

import asyncio
from dataclasses import replace

import pytest

from gateway.domain.agent import ModelDefaults, Placement, SelectionSettings, Thresholds
from gateway.domain.session import MAX_ITEMS, Session, SessionKey, SessionSettings
from gateway.errors import Conflict, InvalidRequest, StoreError
from gateway.sessions.changes import add_items
from gateway.sessions.sessions import ATTEMPTS, Sessions, SessionUse
from gateway.stores.memory_sessions import MemorySessionStore
from gateway.stores.protocols import SessionOwner, StoredSession

KEY = SessionKey("acme", "key", "", "talk")


class HookedStore(MemorySessionStore):
    """Lets something happen between a read and the write that follows."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.intruders: list[bytes] = []

    async def get(self, key: SessionKey) -> StoredSession | None:
        if self.is_down:
            raise StoreError("The store is down.")
        return await super().get(key)

    async def put(self, key: SessionKey, body: bytes, expected: int, ttl: float) -> StoredSession | None:
        if self.intruders:
            await super().put(key, self.intruders.pop(), expected, ttl)
        return await super().put(key, body, expected, ttl)


async def test_a_session_is_read_with_all_that_was_stored() -> None:
    sessions = Sessions(MemorySessionStore())
    selection = SelectionSettings("normal", Thresholds(top_n=3), (("tool", Thresholds(min_score=0.5)),))
    settings = SessionSettings(False, 10, selection, Placement.TURN, 3, True, False, ModelDefaults("m", 0.5, 0.9, 7))
    session = Session(("a/b",), ("c/d",), ("e/f",), "site/blog", settings)
    await sessions.change(KEY, lambda _: session)
    found = await sessions.find(KEY)
    assert found is not None
    assert (found.session, found.version) == (session, 1)
    assert (await sessions.open(KEY, set())).session == session


async def test_changes_at_once_are_all_kept() -> None:
    sessions = Sessions(MemorySessionStore())

    async def add(name: str) -> None:
        await sessions.change(KEY, lambda session: add_items(session, [name]))

    await asyncio.gather(*(add(f"c/{n}") for n in range(20)))
    found = await sessions.find(KEY)
    assert found is not None
    assert sorted(found.session.added) == sorted(f"c/{n}" for n in range(20))


async def test_a_change_is_applied_again_to_what_somebody_else_wrote_in_between() -> None:
    store = HookedStore()
    sessions = Sessions(store)
    await sessions.change(KEY, lambda session: add_items(session, ["c/first"]))
    stored = await store.get(KEY)
    assert stored is not None
    store.intruders = [stored.body.replace(b"c/first", b"c/intruder")]
    changed = await sessions.change(KEY, lambda session: add_items(session, ["c/mine"]))
    assert changed.session.added == ("c/intruder", "c/mine")


async def test_a_session_that_never_stands_still_is_a_conflict() -> None:
    store = HookedStore()
    sessions = Sessions(store)
    await sessions.change(KEY, lambda session: add_items(session, ["c/first"]))
    stored = await store.get(KEY)
    assert stored is not None
    store.intruders = [stored.body] * ATTEMPTS
    with pytest.raises(Conflict):
        await sessions.change(KEY, lambda session: add_items(session, ["c/mine"]))


async def test_a_request_goes_on_without_a_session_that_cannot_be_read() -> None:
    store = HookedStore()
    sessions, degraded = Sessions(store), set[str]()
    await sessions.change(KEY, lambda session: add_items(session, ["c/first"]))
    store.is_down = True
    use = await sessions.open(KEY, degraded)
    assert (use.session, degraded) == (Session(), {"session"})
    await sessions.save(SessionUse(KEY, Session(), is_stored=False), lambda session: session, degraded)
    store.is_down = False
    assert (await sessions.open(KEY, set())).session.added == ("c/first",)


async def test_the_first_request_creates_the_session_and_the_next_writes_nothing() -> None:
    sessions = Sessions(MemorySessionStore())
    first = await sessions.open(KEY, set())
    assert not first.is_stored
    await sessions.save(first, lambda session: session, set())
    again = await sessions.open(KEY, set())
    assert again.is_stored
    await sessions.save(again, lambda session: session, set())
    page = await sessions.list_records(SessionOwner("acme"), 0, 10)
    assert [(one.key, one.version) for one in page.records] == [(KEY, 1)]


async def test_a_session_that_is_only_read_stays_alive() -> None:
    now = [1000.0]
    store = MemorySessionStore(clock=lambda: now[0])
    sessions = Sessions(store, seconds=100, clock=lambda: now[0])
    await sessions.change(KEY, lambda session: replace(session, content="site"))
    for _ in range(5):
        now[0] += 60
        assert (await sessions.open(KEY, set())).session.content == "site"
    now[0] += 101
    assert not (await sessions.open(KEY, set())).is_stored


async def test_a_session_holds_so_many_items_and_no_more() -> None:
    sessions = Sessions(MemorySessionStore())
    await sessions.change(KEY, lambda session: add_items(session, [f"c/{n}" for n in range(MAX_ITEMS)]))
    with pytest.raises(InvalidRequest, match=str(MAX_ITEMS)):
        await sessions.change(KEY, lambda session: add_items(session, ["c/more"]))


async def test_a_body_that_cannot_be_read_is_a_fault_of_the_store() -> None:
    store = MemorySessionStore()
    await store.put(KEY, b"{}", 0, 60)
    degraded = set[str]()
    assert (await Sessions(store).open(KEY, degraded)).session == Session()
    assert degraded == {"session"}
