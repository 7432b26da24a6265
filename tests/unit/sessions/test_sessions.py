"""Sessions that are read, changed by several at once, kept alive, and lost."""

import asyncio

import pytest
from msgspec.structs import replace

from gateway.control.sessions import SessionCondition, SessionManager
from gateway.domain.agent import ModelDefaults, Placement, SelectionSettings, Thresholds
from gateway.domain.session import MAX_ITEMS, Session, SessionKey, SessionSettings
from gateway.errors import Conflict, InvalidRequest, PreconditionFailed, StoreError
from gateway.sessions.changes import add_items
from gateway.sessions.late_changes import LateChanges
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

    async def delete(self, key: SessionKey, expected: int | None = None) -> bool:
        if self.intruders:
            kept = await super().get(key)
            assert kept is not None
            await super().put(key, self.intruders.pop(), kept.version, 60)
        return await super().delete(key, expected)


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


class LockedStore(MemorySessionStore):
    """A store whose writes wait for a lock, and fail if they wait too long, as those of SQLite do."""

    def __init__(self) -> None:
        super().__init__()
        self.unlocked = asyncio.Event()
        self.attempts = 0

    async def put(self, key: SessionKey, body: bytes, expected: int, ttl: float) -> StoredSession | None:
        self.attempts += 1
        try:
            async with asyncio.timeout(0.1):
                await self.unlocked.wait()
        except TimeoutError:
            raise StoreError("locked") from None
        return await super().put(key, body, expected, ttl)


def hurry(give_up: float = 5.0) -> LateChanges:
    return LateChanges(patience=0.05, give_up=give_up)


async def save(sessions: Sessions, *added: str) -> set[str]:
    degraded = set[str]()
    use = SessionUse(KEY, Session(), is_stored=False)
    await sessions.save(use, lambda session: add_items(session, added), degraded)
    return degraded


async def read_added(sessions: Sessions) -> tuple[str, ...]:
    return (await sessions.open(KEY, set())).session.added


async def test_a_locked_store_delays_the_change_and_not_the_request() -> None:
    store = LockedStore()
    sessions = Sessions(store, late=hurry())
    began = asyncio.get_running_loop().time()
    assert await save(sessions, "c/1") == await save(sessions, "c/2") == {"session"}
    assert asyncio.get_running_loop().time() - began < 0.15
    await asyncio.sleep(0.5)
    assert (await read_added(sessions), store.attempts > 1) == ((), True)
    store.unlocked.set()
    await sessions.late.close()
    assert (await read_added(sessions), sessions.late.lost) == (("c/1", "c/2"), 0)
    assert await save(sessions, "c/3") == set()


async def test_a_change_that_the_store_never_takes_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    sessions = Sessions(LockedStore(), late=hurry(give_up=0.1))
    assert await save(sessions, "c/1") == {"session"}
    await asyncio.sleep(0.6)
    assert sessions.late.lost == 1
    assert "a change of a session is lost: locked" in caplog.text


async def test_a_client_that_leaves_while_the_store_is_locked_keeps_its_change() -> None:
    store = LockedStore()
    sessions = Sessions(store, late=LateChanges(patience=5))
    saving = asyncio.create_task(save(sessions, "c/1"))
    await asyncio.sleep(0.02)
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    store.unlocked.set()
    await sessions.late.close()
    assert await read_added(sessions) == ("c/1",)


async def test_what_waits_is_bounded_by_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.sessions.late_changes.MAX_LATE", 3)
    store = LockedStore()
    sessions = Sessions(store, late=hurry())
    for number in range(6):
        await save(sessions, f"c/{number}")
    assert sessions.late.lost == 3
    other = SessionUse(SessionKey("other", "key", "", "talk"), Session(), is_stored=False)
    await sessions.save(other, lambda session: add_items(session, ["c/1"]), set())
    store.unlocked.set()
    await sessions.late.close()
    assert await read_added(sessions) == ("c/0", "c/1", "c/2")
    assert (await sessions.open(other.key, set())).session.added == ("c/1",)


async def test_a_store_that_does_not_answer_a_read_costs_the_session_and_not_the_request() -> None:
    class Silent(MemorySessionStore):
        async def get(self, key: SessionKey) -> StoredSession | None:
            await asyncio.sleep(60)
            return None

    degraded = set[str]()
    began = asyncio.get_running_loop().time()
    assert (await Sessions(Silent()).open(KEY, degraded)).is_lost
    assert asyncio.get_running_loop().time() - began < 1
    assert degraded == {"session"}


async def test_a_session_that_is_changed_while_it_is_deleted_is_only_deleted_without_a_condition() -> None:
    store = HookedStore()
    sessions = Sessions(store)
    manager = SessionManager(sessions, policies=None)  # type: ignore[arg-type]
    record = await sessions.change(KEY, lambda session: add_items(session, ["a/b"]))
    body = (await store.get(KEY)).body  # type: ignore[union-attr]
    store.intruders = [body]
    with pytest.raises(PreconditionFailed, match="version 2"):
        await manager.delete(KEY, SessionCondition(frozenset({record.tag})))
    for condition in (SessionCondition(frozenset({"*"})), SessionCondition()):
        assert await sessions.find(KEY) is not None
        store.intruders = [body]
        await manager.delete(KEY, condition)
        assert await sessions.find(KEY) is None
        await sessions.change(KEY, lambda session: add_items(session, ["a/b"]))
