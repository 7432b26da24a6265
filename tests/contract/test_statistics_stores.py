"""What every StatisticsStore promises, run on each engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.domain import statistics
from gateway.domain.receipt import STARTED, Receipt
from gateway.domain.receipt_note import ReceiptBatch
from gateway.domain.redis_address import redis_address
from gateway.domain.sketch import estimate_distinct, hash_name, merge_sketches
from gateway.domain.statistics import (
    EXCHANGES,
    OTHER,
    RESOURCES,
    Bucket,
    Series,
    Span,
    StatisticsLimits,
    StatisticsRow,
    Tally,
    UncountedBatch,
)
from gateway.ids import encode_id_time
from gateway.stores.memory_receipts import MemoryReceiptStore
from gateway.stores.memory_statistics import MemoryStatisticsStore
from gateway.stores.protocols import ReceiptStore
from gateway.stores.redis_connection import RedisTimeouts
from gateway.stores.redis_receipts import RedisReceiptStore
from gateway.stores.redis_statistics import RedisStatisticsStore
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from gateway.stores.sqlite_statistics import SqliteStatisticsStore
from gateway.stores.statistics import StatisticsStore
from tests.support.redis_server import RedisServer, running_redis

DAY = 20_000 * 86_400
NOTHING = UncountedBatch()


def make(number: int, status: str = "ok", workspace: str = "default") -> Receipt:
    id = f"{encode_id_time(DAY + number)}{number:012x}"
    return Receipt(id, workspace, status, "s\ud800", "writer", summary=b'{"model":"m"}', details=b'{"turns":[]}')


def tally(
    series: Series = RESOURCES, sessions: tuple[str, ...] = (), established: bool = True, **counters: int
) -> Tally:
    hashes = [{hash_name(one) for one in sessions} for _ in series.sketches]
    return Tally([counters.get(name, 0) for name in series.counters], hashes, established)


def bucket(start: int = DAY, span: Span = Span.DAY, workspace: str = "default", series: Series = RESOURCES) -> Bucket:
    return Bucket(workspace, series.name, span, start)


@dataclass
class Engine:
    """A place for receipts and figures; opening it once more is another worker."""

    open_receipts: Callable[[], Awaitable[ReceiptStore]]
    open: Callable[..., Awaitable[StatisticsStore]]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer) -> AsyncIterator[Engine]:
    async with AsyncExitStack() as stack:
        memory = MemoryReceiptStore()
        figures: list[MemoryStatisticsStore] = []
        address, timeouts = redis_address(server.url), RedisTimeouts(background=10)

        async def open_receipts() -> ReceiptStore:
            match request.param:
                case "memory":
                    return memory
                case "sqlite":
                    store: ReceiptStore = await SqliteReceiptStore.open(tmp_path / "receipts.db")
                case _:
                    store = await RedisReceiptStore.open(address, timeouts)
            stack.push_async_callback(store.close)
            return store

        async def open_statistics(enabled: bool = True) -> StatisticsStore:
            match request.param:
                case "memory":
                    figures.append(figures[0] if figures else MemoryStatisticsStore(memory, enabled=enabled))
                    return figures[0]
                case "sqlite":
                    store: StatisticsStore = await SqliteStatisticsStore.open(tmp_path / "receipts.db", enabled=enabled)
                case _:
                    store = await RedisStatisticsStore.open(address, timeouts, enabled=enabled)
            stack.push_async_callback(store.close)
            if enabled:
                await store.read_uncounted(1)  # as the job does before the first receipt
            return store

        if request.param == "redis":
            server.client().flushall()
        yield Engine(open_receipts, open_statistics)


@pytest.fixture
async def store(engine: Engine) -> StatisticsStore:
    return await engine.open()


@pytest.fixture
async def receipts(engine: Engine, store: StatisticsStore) -> ReceiptStore:
    return await engine.open_receipts()


def unpack(row: StatisticsRow, series: Series = RESOURCES) -> dict[str, int]:
    values = zip(series.counters, series.layout.unpack(row.counters), strict=True)
    return {name: value for name, value in values if value}


async def list_ids(store: StatisticsStore) -> list[int]:
    return [int(one.id[14:], 16) for one in (await store.read_uncounted(100)).receipts]


async def test_a_receipt_waits_once_when_it_ends_whatever_ends_it(
    store: StatisticsStore, receipts: ReceiptStore
) -> None:
    await receipts.renew("boot", 60)
    await receipts.renew("dead", 0)
    begun = make(1, STARTED)
    await receipts.write(ReceiptBatch([begun, make(2)]), "boot")
    await receipts.write(ReceiptBatch([make(3, STARTED)]), "dead")
    assert await list_ids(store) == [2]
    await receipts.write(ReceiptBatch([replace(begun, status="error")]), "boot")
    await receipts.write(
        ReceiptBatch([replace(begun, status="error"), make(2)]), "boot"
    )  # a batch may be written twice
    assert sorted(await list_ids(store)) == [1, 2]
    assert await receipts.sweep() == 1
    assert sorted(await list_ids(store)) == [1, 2, 3]
    await receipts.write(ReceiptBatch([make(3)]), "dead")  # it was only slow
    assert sorted(await list_ids(store)) == [1, 2, 3]


async def test_what_waits_comes_with_everything_that_is_counted(store: StatisticsStore, receipts: ReceiptStore) -> None:
    await receipts.write(ReceiptBatch([make(1)]), "boot")
    (waiting,) = (await store.read_uncounted(10)).receipts
    written = make(1)
    for name in ("id", "workspace", "status", "session", "agent", "summary", "details"):
        assert getattr(waiting, name) == getattr(written, name)


async def test_a_batch_is_counted_by_one_process_only(engine: Engine) -> None:
    one, two = await engine.open(), await engine.open()
    receipts = await engine.open_receipts()
    await receipts.write(ReceiptBatch([make(number) for number in range(5)]), "boot")
    mine, theirs = await one.read_uncounted(3), await two.read_uncounted(5)
    added = {bucket(): {"a/b": tally(injected=3)}}
    assert await one.add(added, mine, DAY)
    assert not await two.add({bucket(): {"a/b": tally(injected=5)}}, theirs, DAY)
    assert [unpack(row) for row in await two.read(bucket(), DAY + 1)] == [{"injected": 3}]
    assert await list_ids(two) == [3, 4]


async def test_a_deleted_receipt_no_longer_waits(store: StatisticsStore, receipts: ReceiptStore) -> None:
    await receipts.write(ReceiptBatch([make(1), make(2)]), "boot")
    if isinstance(receipts, MemoryReceiptStore):
        pytest.skip("memory keeps what waits by itself")
    await receipts.delete("default", make(1).id)
    batch = await store.read_uncounted(10)
    assert [one.id for one in batch.receipts] == [make(2).id]
    assert await store.add({}, batch, DAY)
    assert not await store.read_uncounted(10)


async def test_a_receipt_is_written_although_a_deleted_one_waited_to_be_counted(
    store: StatisticsStore, receipts: ReceiptStore
) -> None:
    """SQLite gives the number of the last row that was deleted to the next one."""

    async def refuse(_: ReceiptBatch) -> None:  # each is counted by itself
        return None

    if isinstance(receipts, MemoryReceiptStore):
        pytest.skip("memory keeps what waits by itself")
    if isinstance(receipts, SqliteReceiptStore):
        receipts.tally = refuse
    await receipts.write(ReceiptBatch([make(1)]), "boot")
    assert await receipts.delete("default", make(1).id)
    await receipts.write(ReceiptBatch([make(2, status="started")]), "boot")
    assert [one.status for one in (await store.read_uncounted(10)).receipts] == []
    await receipts.write(ReceiptBatch([make(2)]), "boot")
    assert [one.id for one in (await store.read_uncounted(10)).receipts] == [make(2).id]


async def test_several_processes_that_add_at_once_lose_nothing(engine: Engine) -> None:
    stores = [await engine.open() for _ in range(3)]
    receipts = await engine.open_receipts()
    await receipts.write(ReceiptBatch([make(number) for number in range(60)]), "boot")

    async def count(store: StatisticsStore) -> int:
        done = 0
        while batch := await store.read_uncounted(7):
            added = {bucket(): {"a/b": tally(injected=len(batch.marks), sessions=tuple(map(str, batch.marks)))}}
            if await store.add(added, batch, DAY):
                done += len(batch.marks)
        return done

    assert sum(await asyncio.gather(*map(count, stores))) == 60
    (row,) = await stores[0].read(bucket(), DAY + 1, sketches=True)
    assert unpack(row) == {"injected": 60}
    assert estimate_distinct(row.sketches[1]) == 60


async def test_sums_are_added_and_the_last_use_is_the_latest(store: StatisticsStore) -> None:
    await store.add({bucket(): {"a/b": tally(injected=2, last_injected=7, sessions=("x", "y"))}}, NOTHING, DAY)
    await store.add({bucket(): {"a/b": tally(injected=3, last_injected=5, sessions=("y", "z"))}}, NOTHING, DAY)
    (row,) = await store.read(bucket(), DAY + 1, sketches=True)
    assert unpack(row) == {"injected": 5, "last_injected": 7}
    assert [estimate_distinct(one) for one in row.sketches] == [3, 3, 3]
    (plain,) = await store.read(bucket(), DAY + 1)
    assert (plain.counters, plain.sketches) == (row.counters, ())


async def test_a_range_is_read_by_time_and_key(store: StatisticsStore) -> None:
    for number, key in enumerate(("b/b", "a/\ud800", "b/b")):
        await store.add({bucket(DAY + number * 86_400): {key: tally(injected=number + 1)}}, NOTHING, DAY)
    await store.add({bucket(DAY + 3600, Span.HOUR): {"b/b": tally(injected=9)}}, NOTHING, DAY)
    found = await store.read(bucket(), DAY + 2 * 86_400)
    assert [(row.start - DAY, row.key) for row in found] == [(0, "b/b"), (86_400, "a/\ud800")]
    only = await store.read(bucket(), DAY + 10 * 86_400, keys=["b/b"])
    assert [row.start - DAY for row in only] == [0, 2 * 86_400]
    assert await store.read(bucket(), DAY + 10 * 86_400, keys=[]) == []
    assert await store.read(bucket(DAY + 86_400, workspace="other"), DAY + 10 * 86_400) == []


async def test_another_workspace_has_its_own_rows(store: StatisticsStore) -> None:
    rows = {bucket(): {"a/b": tally(injected=1)}, bucket(workspace="other"): {"a/b": tally(injected=2)}}
    await store.add(rows, NOTHING, DAY)
    assert [unpack(row) for row in await store.read(bucket(workspace="other"), DAY + 1)] == [{"injected": 2}]


async def test_a_full_bucket_takes_no_more_keys_and_loses_no_count(
    store: StatisticsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(statistics.SERIES_BY_NAME, "resources", replace(RESOURCES, max_keys=3))
    for number in range(10):
        await store.add({bucket(): {f"c/{number}": tally(injected=1), "c/0": tally(injected=1)}}, NOTHING, DAY)
    rows = {row.key: unpack(row)["injected"] for row in await store.read(bucket(), DAY + 1)}
    assert rows == {"c/0": 10, "c/1": 1, "c/2": 1, OTHER: 7}
    assert sum(rows.values()) == 19


async def test_what_failed_gets_half_of_the_places(store: StatisticsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(statistics.SERIES_BY_NAME, "exchanges", replace(EXCHANGES, max_keys=4))
    where, failed = bucket(series=EXCHANGES), tally(EXCHANGES, established=False, requests=1)
    for number in range(5):
        await store.add({where: {f"made up {number}": failed}}, NOTHING, DAY)
    for name in ("known", "known too"):
        await store.add({where: {name: tally(EXCHANGES, requests=1)}}, NOTHING, DAY)
    await store.add({where: {"known": failed}}, NOTHING, DAY)
    rows = {row.key: unpack(row, EXCHANGES)["requests"] for row in await store.read(where, DAY + 1)}
    assert rows == {"made up 0": 1, "made up 1": 1, "known": 2, OTHER: 4}


async def test_old_buckets_go_by_their_span(store: StatisticsStore) -> None:
    one = {"a/b": tally(injected=1)}
    for start in (DAY, DAY + 86_400):
        await store.add({bucket(start): one, bucket(start, Span.HOUR): one}, NOTHING, DAY)
    limits = StatisticsLimits({Span.DAY: DAY, Span.HOUR: DAY + 3600})
    assert await store.prune(limits) == 1
    assert len(await store.read(bucket(), DAY + 10**6)) == 2
    assert len(await store.read(bucket(span=Span.HOUR), DAY + 10**6)) == 1
    assert await store.prune(limits) == 0


async def test_a_workspace_with_too_many_rows_loses_its_own_oldest(store: StatisticsStore) -> None:
    many = {f"a/{number}": tally(injected=1) for number in range(40)}
    for day in range(3):
        await store.add({bucket(DAY + day * 86_400): many}, NOTHING, DAY)
    await store.add({bucket(workspace="other"): many}, NOTHING, DAY)
    assert await store.prune(StatisticsLimits(max_rows=90)) == 40
    assert {row.start for row in await store.read(bucket(), DAY + 10**6)} == {DAY + 86_400, DAY + 2 * 86_400}
    assert len(await store.read(bucket(workspace="other"), DAY + 1)) == 40


async def test_what_never_ends_is_forgotten_when_it_is_not_used(store: StatisticsStore) -> None:
    ever = bucket(0, Span.EVER)
    await store.add({ever: {"a/old": tally(injected=1), "a/new": tally(injected=1)}}, NOTHING, DAY)
    await store.add({ever: {"a/new": tally(injected=1)}}, NOTHING, DAY + 100)
    assert await store.prune(StatisticsLimits({Span.DAY: DAY + 50})) == 1
    assert [row.key for row in await store.read(ever, 1)] == ["a/new"]


async def test_nothing_waits_where_nobody_counts(engine: Engine) -> None:
    off, receipts = await engine.open(enabled=False), await engine.open_receipts()
    await receipts.write(ReceiptBatch([make(1)]), "boot")
    if isinstance(off, SqliteStatisticsStore | MemoryStatisticsStore):
        assert not await off.read_uncounted(10)
    else:
        assert (await off.read_uncounted(10)).marks == []


async def test_receipts_from_before_are_counted_in_a_file(tmp_path: Path) -> None:
    receipts = await SqliteReceiptStore.open(tmp_path / "receipts.db")
    await receipts.write(ReceiptBatch([make(1), make(2, STARTED)]), "boot")
    store = await SqliteStatisticsStore.open(tmp_path / "receipts.db")
    batch = await store.read_uncounted(10)
    assert [one.id for one in batch.receipts] == [make(1).id]
    assert await store.add({bucket(): {"a/b": tally(injected=1)}}, batch, DAY)
    await (await SqliteStatisticsStore.open(tmp_path / "receipts.db", enabled=False)).close()
    again = await SqliteStatisticsStore.open(tmp_path / "receipts.db")
    assert not await again.read_uncounted(10)  # nothing is counted twice
    for one in (receipts, store, again):
        await one.close()


def test_a_sketch_is_exact_up_to_its_bound_and_near_beyond_it() -> None:
    for count in (0, 1, 63):
        assert estimate_distinct(merge_sketches([hash_name(str(one)) for one in range(count)])) == count
    for count in (1000, 50_000):
        sketch = merge_sketches(hash_name("s", str(one)) for one in range(count))
        assert len(sketch) == 512
        assert abs(estimate_distinct(sketch) - count) < 0.4 * count
