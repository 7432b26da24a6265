"""What every VectorStore promises, run on each engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from gateway.domain.redis_address import redis_address
from gateway.errors import CorruptStore, StoreError
from gateway.stores.memory_vectors import MemoryVectorStore
from gateway.stores.protocols import TOUCH_SECONDS, UNUSED_SECONDS, VectorStore
from gateway.stores.redis_connection import RedisConnection, RedisTimeouts
from gateway.stores.redis_vectors import RedisVectorStore
from gateway.stores.sqlite_vectors import SqliteVectorStore
from tests.support.redis_server import RedisServer, bring_deadlines_nearer, running_redis


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.passed: Callable[[float], None] = lambda seconds: None  # tells an engine that has a clock of its own

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.passed(seconds)
        self.now += seconds


Open = Callable[[Path, Clock, RedisServer], Awaitable[VectorStore]]


async def memory(_: Path, clock: Clock, __: RedisServer) -> VectorStore:
    return MemoryVectorStore(clock=clock)


async def sqlite(folder: Path, clock: Clock, _: RedisServer) -> VectorStore:
    return await SqliteVectorStore.open(folder / "data" / "vectors.db", clock=clock)


async def redis(_: Path, clock: Clock, server: RedisServer) -> VectorStore:
    with server.client() as client:
        client.flushall()
    clock.passed = lambda seconds: bring_deadlines_nearer(server, seconds)
    return RedisVectorStore(await RedisConnection.open(redis_address(server.url), RedisTimeouts(call=10)))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as running:
        yield running


@pytest.fixture(params=[memory, sqlite, redis], ids=["memory", "sqlite", "redis"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, server: RedisServer
) -> AsyncIterator[VectorStore]:
    open_engine: Open = request.param
    opened = await open_engine(tmp_path, clock, server)
    yield opened
    await opened.close()


async def test_kept_vectors_come_back_and_missing_ones_are_simply_absent(store: VectorStore) -> None:
    await store.put_many({b"a": b"\x00\x01", b"b": bytes(768)})
    assert await store.get_many([b"a", b"c", b"b", b"a"]) == {b"a": b"\x00\x01", b"b": bytes(768)}
    assert await store.get_many([]) == {}
    await store.put_many({})


async def test_a_later_vector_replaces_the_former(store: VectorStore) -> None:
    await store.put_many({b"a": b"one"})
    await store.put_many({b"a": b"two"})
    assert await store.get_many([b"a"]) == {b"a": b"two"}


async def test_thousands_come_back_at_once(store: VectorStore) -> None:
    kept = {n.to_bytes(32): n.to_bytes(8) for n in range(3001)}
    await store.put_many(kept)
    assert await store.get_many(list(kept)) == kept


async def test_what_nobody_asked_for_in_a_month_is_forgotten(store: VectorStore, clock: Clock) -> None:
    await store.put_many({b"used": b"1", b"unused": b"2"})
    clock.forward(TOUCH_SECONDS + 1)
    await store.get_many([b"used"])
    clock.forward(UNUSED_SECONDS - 1)
    assert await store.sweep() == (0 if isinstance(store, RedisVectorStore) else 1)  # a server forgets by itself
    assert await store.get_many([b"used", b"unused"]) == {b"used": b"1"}
    assert await store.sweep() == 0


async def test_concurrent_writers_do_not_disturb_each_other(store: VectorStore) -> None:
    await asyncio.gather(*(store.put_many({bytes([n]): b"x", b"shared": b"y"}) for n in range(20)))
    assert len(await store.get_many([b"shared", *(bytes([n]) for n in range(20))])) == 21


async def test_sqlite_keeps_vectors_over_a_restart_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    store = await SqliteVectorStore.open(path)
    await store.put_many({b"a": b"one"})
    await store.close()
    store = await SqliteVectorStore.open(path)
    assert await store.get_many([b"a"]) == {b"a": b"one"}
    await store.close()
    assert path.stat().st_mode & 0o077 == 0


async def test_two_workers_share_one_file(tmp_path: Path) -> None:
    first, second = [await SqliteVectorStore.open(tmp_path / "vectors.db") for _ in range(2)]
    await first.put_many({b"a": b"one"})
    assert await second.get_many([b"a"]) == {b"a": b"one"}
    await first.close()
    await second.close()


async def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    path.write_bytes(b"this is no database" * 1000)
    with pytest.raises(CorruptStore):
        await SqliteVectorStore.open(path)
    assert path.read_bytes() == b"this is no database" * 1000


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = await SqliteVectorStore.open(tmp_path / "vectors.db")
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.put_many({b"a": b"one"})
