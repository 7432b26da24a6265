"""Every engine keeps sessions the same way."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.domain.session import SessionKey
from gateway.stores.memory_sessions import MemorySessionStore
from gateway.stores.open import open_stores
from gateway.stores.protocols import SessionOwner, SessionStore
from gateway.stores.redis_connection import RedisTimeouts
from tests.support.redis_server import RedisServer, running_redis

ENGINES = ("memory", "sqlite", "redis")
KEY = SessionKey("acme", "key-1", "", "talk")
WHOLE = SessionOwner("acme")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(params=ENGINES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionStore]:
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("server")
        with server.client() as client:
            client.flushall()
        url = server.url
    else:
        url = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/gateway.db"}[request.param]
    stores = await open_stores(url, RedisTimeouts(call=10))
    yield stores.sessions
    await stores.close()


async def test_a_session_is_read_as_it_was_written(store: SessionStore) -> None:
    assert await store.get(KEY) is None
    written = await store.put(KEY, b'{"a":1}', 0, 60)
    assert written is not None
    assert await store.get(KEY) == written
    assert (written.version, written.body, written.key) == (1, b'{"a":1}', KEY)


async def test_a_stale_writer_changes_nothing(store: SessionStore) -> None:
    assert await store.put(KEY, b"1", 0, 60)
    assert await store.put(KEY, b"2", 1, 60)
    assert await store.put(KEY, b"stale", 1, 60) is None
    assert await store.put(KEY, b"new", 0, 60) is None
    stored = await store.get(KEY)
    assert stored is not None
    assert (stored.version, stored.body) == (2, b"2")


async def test_writers_at_once_lose_no_change(store: SessionStore) -> None:
    async def append(mark: str) -> None:
        while True:
            known = await store.get(KEY)
            body = (known.body if known else b"") + mark.encode()
            if await store.put(KEY, body, known.version if known else 0, 60):
                return

    marks = "abcdefghijklmnop"
    await asyncio.gather(*map(append, marks))
    stored = await store.get(KEY)
    assert stored is not None
    assert sorted(stored.body.decode()) == list(marks)


@pytest.mark.parametrize(
    "other",
    [
        SessionKey("acme", "key-1", "", "other"),
        SessionKey("acme", "key-1", "ann", "talk"),
        SessionKey("acme", "key-2", "", "talk"),
        SessionKey("rival", "key-1", "", "talk"),
        SessionKey("acme", "key-1\0", "", "talk"),
        SessionKey("acme", "key-1", "\ud800", "talk"),
    ],
)
async def test_another_key_is_another_session(store: SessionStore, other: SessionKey) -> None:
    await store.put(KEY, b"mine", 0, 60)
    assert await store.get(other) is None
    assert await store.put(other, b"other", 0, 60)
    mine, others = await store.get(KEY), await store.get(other)
    assert mine is not None
    assert others is not None
    assert (mine.body, others.body, others.key) == (b"mine", b"other", other)


async def test_sessions_expire_and_are_renewed(store: SessionStore) -> None:
    renewed = SessionKey("acme", "key-1", "", "renewed")
    await store.put(KEY, b"1", 0, 0.3)
    await store.put(renewed, b"1", 0, 0.3)
    await store.renew(renewed, 60)
    await store.renew(SessionKey("acme", "nobody", "", "none"), 60)
    await asyncio.sleep(0.4)
    assert await store.get(KEY) is None
    assert await store.get(renewed) is not None
    assert [one.key for one in (await store.list_sessions(WHOLE, 0, 10)).sessions] == [renewed]
    again = await store.put(KEY, b"2", 0, 60)
    assert again is not None
    assert again.version == 1


async def test_sessions_of_a_workspace_are_counted(store: SessionStore) -> None:
    keys = [SessionKey("acme", "key-1", "", name) for name in "abc"]
    for key in [*keys, SessionKey("rival", "key-1", "", "d")]:
        await store.put(key, b"1", 0, 60)
    await store.put(keys[0], b"2", 1, 0.2)
    await store.put(keys[1], b"2", 1, 0.2)
    await store.renew(keys[1], 60)
    assert [await store.count(name) for name in ("acme", "rival", "none")] == [3, 1, 0]
    await store.delete(keys[2])
    await asyncio.sleep(0.3)
    assert await store.count("acme") == 1


async def test_deleting_says_whether_there_was_one(store: SessionStore) -> None:
    await store.put(KEY, b"1", 0, 60)
    assert [await store.delete(KEY), await store.delete(KEY)] == [True, False]
    assert (await store.list_sessions(WHOLE, 0, 10)).total == 0


async def test_only_the_expected_version_is_deleted(store: SessionStore) -> None:
    await store.put(KEY, b"1", 0, 60)
    await store.put(KEY, b"2", 1, 60)
    assert await store.delete(KEY, 1) is False
    assert (await store.list_sessions(WHOLE, 0, 10)).total == 1
    assert [await store.delete(KEY, 2), await store.delete(KEY, 2)] == [True, False]
    assert (await store.list_sessions(WHOLE, 0, 10)).total == 0


async def test_lists_are_by_owner_and_the_last_changed_comes_first(store: SessionStore) -> None:
    keys = [
        SessionKey("acme", "key-1", "", "a"),
        SessionKey("acme", "key-1", "ann", "b"),
        SessionKey("acme", "key-2", "", "c"),
        SessionKey("rival", "key-1", "", "d"),
    ]
    for key in keys:
        await store.put(key, b"1", 0, 60)
        await asyncio.sleep(0.002)
    await store.put(keys[0], b"2", 1, 60)
    owned = {
        owner: [one.key.id for one in (await store.list_sessions(owner, 0, 10)).sessions]
        for owner in (WHOLE, SessionOwner("acme", "key-1"), SessionOwner("acme", "key-1", "ann"), SessionOwner("no"))
    }
    assert list(owned.values()) == [["a", "c", "b"], ["a", "b"], ["b"], []]
    page = await store.list_sessions(WHOLE, 1, 1)
    assert ([one.key.id for one in page.sessions], page.total) == (["c"], 3)


CHOICES = [WHOLE, SessionOwner("acme", "key-1"), SessionOwner("acme", None, "ann"), SessionOwner("acme", "key-1", "")]


@pytest.mark.parametrize("owner", CHOICES)
async def test_pages_of_any_choice_are_complete(store: SessionStore, owner: SessionOwner) -> None:
    keys = [SessionKey("acme", f"key-{n % 2}", ("", "ann")[n % 3 == 0], f"talk {n}") for n in range(12)]
    for key in (*keys, SessionKey("other", "key-1", "", "talk")):
        assert await store.put(key, b"1", 0, 60)
        await asyncio.sleep(0.002)  # two changes at one moment have no order
    await store.delete(keys[3])
    wanted = [key for key in reversed(keys) if owner.owns(key) and key != keys[3]]
    pages = [await store.list_sessions(owner, skip, 2) for skip in range(0, len(wanted), 2)]
    assert [stored.key for page in pages for stored in page.sessions] == wanted
    assert {page.total for page in pages} == {len(wanted)}


async def test_redis_reads_no_more_than_a_page(server: RedisServer) -> None:
    stores = await open_stores(server.url, RedisTimeouts(call=10))
    with server.client() as client:
        client.flushall()
        for number in range(600):
            assert await stores.sessions.put(SessionKey("acme", f"key-{number % 3}", "", f"s{number}"), b"x", 0, 60)
        for owner in (WHOLE, SessionOwner("acme", "key-1")):
            client.config_resetstat()
            page = await stores.sessions.list_sessions(owner, 100, 10)
            assert (len(page.sessions), page.total) == (10, 600 if owner is WHOLE else 200)
            stats = client.info("commandstats")
            assert stats["cmdstat_hmget"]["calls"] == 10
            assert client.info("stats")["total_net_output_bytes"] < 20_000  # a page, not an index of 600
    await stores.close()


async def test_memory_refuses_new_sessions_when_it_is_full() -> None:
    now = [0.0]
    store = MemorySessionStore(clock=lambda: now[0], capacity=2)
    for name in "ab":
        await store.put(SessionKey("acme", "key", "", name), b"1", 0, 60)
    with pytest.raises(Exception, match="full"):
        await store.put(SessionKey("acme", "key", "", "c"), b"1", 0, 60)
    assert await store.put(SessionKey("acme", "key", "", "a"), b"2", 1, 60)
    now[0] = 61
    assert await store.put(SessionKey("acme", "key", "", "c"), b"1", 0, 60)
