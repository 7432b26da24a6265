"""Records on a server that freezes, dies, forgets or is full."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from gateway.domain.record import Author, FeedPosition, RecordBatch, RecordKey, RecordWrite
from gateway.domain.redis_address import redis_address
from gateway.errors import StoreError, StoreFull
from gateway.stores.open import Stores, open_stores
from gateway.stores.protocols import AuditFilter
from gateway.stores.redis_connection import DEFAULT_TIMEOUTS, RedisConnection, RedisTimeouts
from gateway.stores.redis_records import RedisRecordStore
from tests.support.limits import with_limits
from tests.support.redis_server import RedisServer, running_redis, until_it_works

ADA = Author("ada", "update")
STYLE, TONE = RecordKey("default", "contexts", "style"), RecordKey("default", "contexts", "tone")


class RecordingConnection(RedisConnection):
    """A connection that notes how long each call took, and may do something before the next one."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seconds: list[float] = []
        self.timeouts_given: list[float | None] = []
        self.before: dict[int, Callable[[], Awaitable[object]]] = {}  # by the number of the call

    async def call(self, work: Callable[[], Awaitable[Any]], seconds: float | None = None) -> Any:
        if first := self.before.get(len(self.seconds)):
            await first()
        begin = time.perf_counter()
        try:
            return await super().call(work, seconds)
        finally:
            self.seconds.append(time.perf_counter() - begin)
            self.timeouts_given.append(seconds)

    def forget(self) -> None:
        self.seconds.clear()
        self.timeouts_given.clear()


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def server(shared: RedisServer) -> Iterator[RedisServer]:
    """An empty server, whatever the test does to it."""
    with shared.client() as client:
        client.flushall()
    yield shared
    shared.kill()
    (shared.folder / "dump.rdb").unlink(missing_ok=True)
    shared.start()


@pytest.fixture
async def stores(server: RedisServer) -> AsyncIterator[Stores]:
    """The stores with the timeouts that they have in production."""
    stores = await open_stores(server.url, RedisTimeouts(probe_interval=0.2))
    yield stores
    await stores.close()


@pytest.fixture
async def connection(server: RedisServer) -> AsyncIterator[RecordingConnection]:
    """A connection with all the time that a busy machine may need."""
    connection = await RecordingConnection.open(redis_address(server.url), RedisTimeouts(call=10))
    yield connection
    await connection.close()


@pytest.fixture
def calm(connection: RecordingConnection) -> RedisRecordStore:
    return RedisRecordStore(connection)


def calls(stores: Stores) -> list[Callable[[], Awaitable[object]]]:
    """Every way to ask for records."""
    records = stores.records
    return [
        records.load,
        lambda: records.read_changes(FeedPosition("epoch", 1)),
        lambda: records.commit([RecordWrite(STYLE, b"{}")], ADA),
        lambda: records.list_versions(STYLE, 0, 10),
        lambda: records.find_version(STYLE, 1),
        lambda: records.list_audit("default", AuditFilter(), 0, 10),
        lambda: records.list_audit("default", AuditFilter(by="ada"), 0, 10),
        lambda: records.prune(1, 0),
    ]


@with_limits(loaded=3, quiet=0.3)  # seconds beyond the timeouts
@pytest.mark.parametrize("number", range(8))
async def test_a_frozen_server_ends_every_call_within_its_timeout(
    stores: Stores, server: RedisServer, number: int, limits: float
) -> None:
    await stores.records.commit([RecordWrite(STYLE, b"{}")], ADA)
    server.freeze()
    begin = time.perf_counter()
    with pytest.raises(StoreError, match="did not answer within"):
        await calls(stores)[number]()
    assert time.perf_counter() - begin < DEFAULT_TIMEOUTS.body + DEFAULT_TIMEOUTS.call + limits


@with_limits(loaded=(3, 6), quiet=(0.5, 2))  # seconds of all calls, seconds until it is used again
async def test_a_server_that_stays_silent_is_left_alone_until_it_answers(
    stores: Stores, server: RedisServer, limits: tuple[float, float]
) -> None:
    calls_time, recovery = limits
    (kept,) = await stores.records.commit([RecordWrite(STYLE, b"{}")], ADA)
    assert not stores.breaker_open
    server.freeze()
    for _ in range(3):
        with pytest.raises(StoreError, match="did not answer within"):
            await stores.records.load()
    assert stores.breaker_open
    begin = time.perf_counter()
    for call in calls(stores) * 5:
        with pytest.raises(StoreError, match="will be used again as soon as it does"):
            await call()
    with pytest.raises(StoreError, match="will be used again"):
        await stores.ephemeral.get_many(["a"])  # one server, one breaker
    assert time.perf_counter() - begin < calls_time
    server.thaw()
    assert await until_it_works(stores.records.load) < recovery
    assert not stores.breaker_open
    assert (await stores.records.load()).records == (kept,)


async def test_a_server_that_comes_back_empty_has_another_history(stores: Stores, server: RedisServer) -> None:
    await stores.records.commit([RecordWrite(STYLE, b"{}")], ADA)
    before = (await stores.records.load()).position
    server.kill()
    for _ in range(4):
        with pytest.raises(StoreError):
            await stores.records.read_changes(before)
    server.start()
    await until_it_works(lambda: stores.records.read_changes(before))
    assert await stores.records.read_changes(before) is None
    after = await stores.records.load()
    assert (after.records, after.position.number) == ((), 0)
    assert after.position.epoch not in ("", before.epoch)


async def test_an_emptied_server_has_another_history(calm: RedisRecordStore, server: RedisServer) -> None:
    await calm.commit([RecordWrite(STYLE, b"{}")], ADA)
    before = (await calm.load()).position
    with server.client() as client:
        client.flushall()
    assert await calm.read_changes(before) is None
    after = await calm.load()
    assert (after.records, after.position.number) == ((), 0)
    assert after.position.epoch not in ("", before.epoch)
    assert await calm.read_changes(before) is None


async def test_a_commit_to_an_emptied_server_is_no_continuation(calm: RedisRecordStore, server: RedisServer) -> None:
    await calm.commit([RecordWrite(STYLE, b"{}")], ADA)
    before = (await calm.load()).position
    with server.client() as client:
        client.flushall()
    (made,) = await calm.commit([RecordWrite(TONE, b"{}")], ADA)
    assert await calm.read_changes(before) is None
    assert (await calm.load()).records == (made,)


async def test_a_server_that_lost_the_end_of_its_history_is_noticed(
    calm: RedisRecordStore, server: RedisServer
) -> None:
    await calm.commit([RecordWrite(STYLE, b"1")], ADA)
    with server.client() as client:
        client.save()
    await calm.commit([RecordWrite(STYLE, b"lost")], ADA)
    before = (await calm.load()).position
    server.kill()
    server.start()
    await asyncio.sleep(0.05)  # the connections learn that they are closed
    assert await calm.read_changes(before) is None
    # Another gateway writes as much as was lost, and more.
    for body in (b"2", b"3"):
        (made,) = await calm.commit([RecordWrite(STYLE, body)], ADA)
    assert (made.version, (await calm.load()).position.number) == (3, 3)
    assert await calm.read_changes(before) is None
    assert (await calm.load()).records == (made,)


async def test_a_history_that_begins_anew_during_a_load_is_read_from_its_start(
    calm: RedisRecordStore, connection: RecordingConnection, server: RedisServer
) -> None:
    (made,) = await calm.commit([RecordWrite(STYLE, b"1")], ADA)
    since = (await calm.load()).position
    (made,) = await calm.commit([RecordWrite(STYLE, b"2")], ADA)

    async def begin_anew() -> None:
        with server.client() as client:
            client.hset("gateway-records:head", "epoch", f"another-{len(connection.seconds)}")

    connection.forget()
    connection.before = {1: begin_anew}
    assert await calm.load() == RecordBatch(FeedPosition("another-1", 2), (made,))
    connection.forget()
    connection.before = {1: begin_anew}
    assert await calm.read_changes(FeedPosition("another-1", since.number)) == RecordBatch(
        FeedPosition("another-1", 2), (made,)
    )
    connection.forget()
    connection.before = {2: begin_anew}
    assert await calm.read_changes(FeedPosition("another-1", since.number)) is None
    connection.forget()
    connection.before = dict.fromkeys(range(100), begin_anew)
    with pytest.raises(StoreError, match="again and again"):
        await calm.load()


async def test_changes_show_no_half_of_a_commit_that_comes_in_between(
    calm: RedisRecordStore, connection: RecordingConnection, server: RedisServer
) -> None:
    await calm.commit([RecordWrite(STYLE, b"1"), RecordWrite(TONE, b"1")], ADA)
    since = (await calm.load()).position
    await calm.commit([RecordWrite(STYLE, b"2")], ADA)
    other = await RedisConnection.open(redis_address(server.url), RedisTimeouts(call=10))

    async def commit_both() -> None:
        await RedisRecordStore(other).commit([RecordWrite(STYLE, b"3"), RecordWrite(TONE, b"3")], ADA)

    connection.forget()
    connection.before = {1: commit_both}  # after the names, before the texts
    found = await calm.read_changes(since)
    assert found is not None
    assert {record.key: record.body for record in found.records} == {STYLE: b"3", TONE: b"3"}
    assert found.position.number == since.number + 3
    await other.close()


async def test_a_record_that_the_server_evicted_is_no_deletion(calm: RedisRecordStore, server: RedisServer) -> None:
    await calm.commit([RecordWrite(STYLE, b"{}"), RecordWrite(TONE, b"{}")], ADA)
    with server.client() as client:
        client.delete(next(client.scan_iter("gateway-records:object:*")))
    with pytest.raises(StoreError, match="must not evict"):
        await calm.load()


async def test_a_full_server_refuses_the_commit_and_still_reads(calm: RedisRecordStore, server: RedisServer) -> None:
    (kept,) = await calm.commit([RecordWrite(STYLE, b"1")], ADA)
    here = (await calm.load()).position
    with server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(StoreFull, match="refused"):
                await calm.commit([RecordWrite(STYLE, b"2"), RecordWrite(TONE, b"2")], ADA)
            assert (await calm.load()).records == (kept,)
        finally:
            client.config_set("maxmemory", 0)
    assert await calm.read_changes(here) == RecordBatch(here, ())
    assert len(await calm.commit([RecordWrite(STYLE, b"2", 1), RecordWrite(TONE, b"2", 0)], ADA)) == 2


async def test_a_server_that_forgot_the_scripts_gets_them_again(calm: RedisRecordStore, server: RedisServer) -> None:
    for number in range(2):
        await calm.commit([RecordWrite(STYLE, b"{}", number)], ADA)
        with server.client() as client:
            client.script_flush()
    assert len((await calm.load()).records) == 1


async def test_names_on_the_server_hold_no_text_of_users(calm: RedisRecordStore, server: RedisServer) -> None:
    await calm.commit([RecordWrite(RecordKey("wörk {x}", "kind*", "ali\nas"), b"{}", id="an id")], ADA)
    digits = "[0-9a-f]{64}"
    known = rf"gateway-records:(head|changed|kept|audits|object:{digits}|audit:{digits})"
    with server.client() as client:
        names = [name.decode() for name in client.scan_iter()]
        members = [*client.zrange("gateway-records:changed", 0, -1), *client.zrange("gateway-records:audits", 0, -1)]
    assert len(names) == 6
    assert [name for name in names if not re.fullmatch(known, name)] == []
    assert [member for member in members if not re.fullmatch(digits, member.decode())] == []


async def test_asking_for_changes_when_there_are_none_is_one_call(
    calm: RedisRecordStore, connection: RecordingConnection
) -> None:
    await calm.commit([RecordWrite(STYLE, b"{}")], ADA)
    here = (await calm.load()).position
    connection.forget()
    assert await calm.read_changes(here) == RecordBatch(here, ())
    assert len(connection.seconds) == 1


@with_limits(loaded=2, quiet=DEFAULT_TIMEOUTS.call / 2)  # seconds of nine calls in ten
async def test_a_large_load_is_many_calls_that_each_fit_their_timeout(
    calm: RedisRecordStore, connection: RecordingConnection, limits: float
) -> None:
    for start in range(0, 1000, 200):
        keys = [RecordKey("default", "contexts", f"c{n}") for n in range(start, start + 200)]
        await calm.commit([RecordWrite(key, b"x" * 20_000) for key in keys], ADA)
    connection.forget()
    assert len((await calm.load()).records) == 1000
    assert len(connection.seconds) >= 1000 * 20_000 / 500_000
    assert sorted(connection.seconds)[len(connection.seconds) * 9 // 10] < limits


async def test_a_large_commit_gets_more_time(server: RedisServer) -> None:
    connection = await RecordingConnection.open(redis_address(server.url))
    records = RedisRecordStore(connection)
    await records.commit([RecordWrite(STYLE, b"{}")], ADA)
    await records.commit([RecordWrite(STYLE, b"x" * 10_000_000)], ADA)
    await connection.close()
    small, large = connection.timeouts_given
    assert small == pytest.approx(DEFAULT_TIMEOUTS.body, abs=0.01)
    assert large == pytest.approx(DEFAULT_TIMEOUTS.body + 1, abs=0.01)
