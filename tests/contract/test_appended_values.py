"""What every EphemeralStore promises about values that are appended, run on each engine."""

import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from msgspec import msgpack

from gateway.domain.redis_address import redis_address
from gateway.stores import sqlite_batches
from gateway.stores.protocols import CommonValue, EphemeralStore
from gateway.stores.redis_connection import RedisTimeouts
from gateway.stores.redis_ephemeral import RedisEphemeralStore
from gateway.stores.sqlite_ephemeral import SqliteEphemeralStore
from tests.support.ephemeral_engines import Clock, OpenEngine, open_memory, open_redis, open_sqlite
from tests.support.redis_server import RedisServer, running_redis

KEYS = [f"key/{number}" for number in range(12)]
STEPS = 250


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=[open_memory, open_sqlite, open_redis], ids=["memory", "sqlite", "redis"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, server: RedisServer
) -> AsyncIterator[EphemeralStore]:
    open_engine: OpenEngine = request.param
    opened = await open_engine(tmp_path, clock, server)
    yield opened
    await opened.close()


@pytest.fixture
def tiny_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few values make a row, a segment and a sweep, and every fourth key has the same hash."""
    for name, limit in (("ROW_BYTES", 40), ("LISTED_BYTES", 16), ("LISTED_ROWS", 2), ("SEGMENT_SIZE", 8)):
        monkeypatch.setattr(sqlite_batches, name, limit)
    for name in ("SWEPT_ROWS", "SWEPT_HASHES"):
        monkeypatch.setattr(sqlite_batches, name, 3)
    monkeypatch.setattr(sqlite_batches, "SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(sqlite_batches, "hash_keys", lambda start, ends: [crc32(start + end) % 4 for end in ends])


async def test_several_values_are_appended_in_one_step(store: EphemeralStore, clock: Clock) -> None:
    await store.append_many({"b": b"old"}, 100)
    await store.append_many({"a": b"1", "b": b"2"}, 10)
    assert await store.find_appended(["a", "b", "c", "a"]) == {"a": b"1", "b": b"2"}
    clock.now += 10
    assert await store.find_appended(["a", "b"]) == {}


async def test_nothing_may_be_appended_and_asked_for(store: EphemeralStore) -> None:
    await store.append_many({}, 10)
    assert await store.find_appended([]) == {}
    assert await store.find_appended(["a"]) == {}


async def test_a_value_may_stand_under_several_keys(store: EphemeralStore) -> None:
    ends = [f"{number}" for number in range(1000)]
    shared = [CommonValue("a:", " ".join(ends), b"1"), CommonValue("", "b c", b"2"), CommonValue("a:", "7 8 b", b"3")]
    await store.append_many({"a:8": b"4"}, 10, shared)
    keys = ["a:0", "a:7", "a:8", "a:999", "a:1000", "a:b", "b", "c", "a:0 1", "a:", "", "a", "b c"]
    expected = {"a:0": b"1", "a:7": b"3", "a:8": b"4", "a:999": b"1", "a:b": b"3", "b": b"2", "c": b"2"}
    assert await store.find_appended(keys) == expected
    await store.append_many({"a:0": b"-"}, 10)
    assert await store.find_appended(["a:0", "a:1"]) == {"a:0": b"-", "a:1": b"1"}


async def test_appended_keys_and_values_are_any(store: EphemeralStore) -> None:
    keys = ["", " ", "a/b", "'; --", "nai\u0308ve", "🧭", "a\x00b", "\ud800", "x" * 10_000]
    values = dict(zip(keys, [b"", b"\x00", bytes(range(256)) * 100, *(b"%d" % n for n in range(6))], strict=True))
    await store.append_many(values, 10)
    assert await store.find_appended(keys) == values


async def test_a_thousand_appended_values_come_back_at_once(store: EphemeralStore) -> None:
    values = {f"response:{n}": b"%d" % n * 20 for n in range(1000)}
    for start in range(0, 1000, 50):
        await store.append_many({key: values[key] for key in list(values)[start : start + 50]}, 60)
    assert await store.find_appended([*values, "absent"]) == values


class Expected:
    """A dictionary that forgets what has expired, and a store that has to agree with it."""

    def __init__(self, store: EphemeralStore, clock: Clock, chance: random.Random) -> None:
        self.store, self._clock, self.chance = store, clock, chance
        self._kept: dict[str, tuple[bytes, float]] = {}

    async def append(self) -> None:
        keys = self.chance.sample(KEYS, self.chance.randint(1, 5))
        values = {key: self.chance.randbytes(self.chance.choice((0, 1, 9, 60))) for key in keys}
        ttl = self.chance.choice((10, 30, 60))
        shared = [self.share() for _ in range(self.chance.randint(0, 2))]
        await self.store.append_many(values, ttl, shared)
        for one in shared:
            self._kept |= {one.start + end: (one.value, self._clock.now + ttl) for end in one.ends.split(" ")}
        self._kept |= {key: (value, self._clock.now + ttl) for key, value in values.items()}

    def share(self) -> CommonValue:
        start = self.chance.choice(("", "key/", "key/1"))
        ends = [key.removeprefix(start) for key in KEYS if key.startswith(start)]
        some = self.chance.sample(ends, self.chance.randint(1, len(ends)))
        return CommonValue(start, " ".join(some), self.chance.randbytes(self.chance.choice((0, 9, 60))))

    async def delete(self) -> None:
        """As responses are deleted."""
        key = self.chance.choice(KEYS)
        await self.store.append_many({key: b"-"}, 60)
        self._kept[key] = b"-", self._clock.now + 60

    async def pass_time(self) -> None:
        self._clock.now += self.chance.choice((10, 10, 20, 60))

    async def reopen(self) -> None:
        self.store = await reopen(self.store, self._clock)

    async def check(self) -> None:
        keys = self.chance.sample(KEYS, self.chance.randint(1, len(KEYS)))
        live = {key: value for key, (value, expires) in self._kept.items() if expires > self._clock.now}
        assert await self.store.find_appended(keys) == {key: live[key] for key in keys if key in live}


async def reopen(store: EphemeralStore, clock: Clock) -> EphemeralStore:
    """The same values in another process; those in memory have only one."""
    if isinstance(store, SqliteEphemeralStore):
        path = store.threads.writer._path
        await store.close()
        return await SqliteEphemeralStore.open(path, clock=clock)
    if isinstance(store, RedisEphemeralStore):
        host = store.connection.client.connection_pool.connection_kwargs
        await store.close()
        address = redis_address(f"redis://{host['host']}:{host['port']}/0")
        return await RedisEphemeralStore.open(address, RedisTimeouts(call=10))
    return store


async def take_steps(expected: Expected) -> None:
    actions = [expected.append, expected.delete, expected.pass_time, expected.reopen]
    for _ in range(STEPS):
        await expected.chance.choices(actions, (60, 10, 25, 5))[0]()
        await expected.check()


@pytest.mark.usefixtures("tiny_limits")
@pytest.mark.parametrize("seed", range(4))
async def test_any_order_of_steps_agrees_with_a_dictionary(store: EphemeralStore, clock: Clock, seed: int) -> None:
    expected = Expected(store, clock, random.Random(seed))
    await take_steps(expected)
    if expected.store is not store:  # which the fixture closes
        await expected.store.close()


def drop_any(connection: sqlite3.Connection, now: float) -> bool:
    """A mutant: a value that replaced another may go before it."""
    last = sqlite_batches._find_last_row(connection)
    connection.execute("DELETE FROM batch_rows WHERE expires <= ? AND number < ?", (now, last))
    return True


def drop_segment(connection: sqlite3.Connection) -> bool:
    """A mutant: forgets a part of the index whose rows are still there."""
    oldest = "SELECT min(segment) FROM batch_segments"
    connection.execute(f"DELETE FROM batch_buckets WHERE id / {sqlite_batches.BUCKETS} = ({oldest})")
    return True


class AnyValue(dict[bytes, bytes]):
    """A mutant: takes a row for the one that is wanted because a hash says so."""

    def get(self, key: bytes, default: Any = None) -> Any:
        return super().get(key, next(iter(self.values())))


MUTANTS: list[tuple[str, Callable[..., object]]] = [
    ("_drop_rows", drop_any),
    ("_drop_segment", drop_segment),
    ("_decode", lambda body: AnyValue(msgpack.decode(body))),
    ("hash_keys", lambda _, ends: [random.getrandbits(2) for _ in ends]),
    ("_decode_shared", lambda body: msgpack.decode(body, type=list[CommonValue])[::-1]),
    ("index_listed", lambda connection: connection.execute(sqlite_batches.CLEAR_LIST)),
]


@pytest.mark.usefixtures("tiny_limits")
@pytest.mark.parametrize(("name", "mutant"), MUTANTS)
async def test_a_fault_is_caught(
    name: str, mutant: Callable[..., object], tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_batches, name, mutant)
    store = await SqliteEphemeralStore.open(tmp_path / "gateway.db", clock=clock)
    expected = Expected(store, clock, random.Random(0))
    with pytest.raises(AssertionError):
        await take_steps(expected)
    await expected.store.close()
