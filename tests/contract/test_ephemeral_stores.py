"""What every EphemeralStore promises, run on each engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import StoreError
from gateway.stores.protocols import EphemeralStore
from gateway.stores.redis_ephemeral import RedisEphemeralStore
from tests.support.ephemeral_engines import Clock, OpenEngine, open_memory, open_redis, open_sqlite
from tests.support.redis_server import RedisServer, running_redis


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


async def test_a_kept_value_comes_back(store: EphemeralStore) -> None:
    await store.put("a", b"one")
    assert await store.get_many(["a"]) == {"a": b"one"}


async def test_a_missing_key_is_simply_absent(store: EphemeralStore) -> None:
    await store.put("a", b"one")
    assert await store.get_many(["a", "b"]) == {"a": b"one"}
    assert await store.get_many([]) == {}


async def test_put_replaces_the_value_and_its_deadline(store: EphemeralStore, clock: Clock) -> None:
    await store.put("a", b"one", ttl=10)
    await store.put("a", b"two", ttl=100)
    clock.now += 50
    assert await store.get_many(["a"]) == {"a": b"two"}
    await store.put("a", b"three")
    clock.now += 1e9
    assert await store.get_many(["a"]) == {"a": b"three"}


async def test_a_shorter_deadline_replaces_a_longer_one(store: EphemeralStore, clock: Clock) -> None:
    await store.put("a", b"for good")
    await store.put("a", b"for a moment", ttl=1)
    clock.now += 1
    assert await store.get_many(["a"]) == {}


async def test_a_value_lives_until_its_ttl_and_no_longer(store: EphemeralStore, clock: Clock) -> None:
    await store.put("a", b"one", ttl=10)
    clock.now += 9.5
    assert await store.get_many(["a"]) == {"a": b"one"}
    clock.now += 0.5
    assert await store.get_many(["a"]) == {}


async def test_later_writes_do_not_revive_what_expired(store: EphemeralStore, clock: Clock) -> None:
    await store.put("old", b"one", ttl=10)
    clock.now += 1000
    await store.put("new", b"two", ttl=10)
    assert await store.get_many(["old", "new"]) == {"new": b"two"}


async def test_put_new_keeps_the_first_value_for_good(store: EphemeralStore, clock: Clock) -> None:
    assert await store.put_new("secret", b"first") == b"first"
    assert await store.put_new("secret", b"second") == b"first"
    clock.now += 1e9
    await store.put("other", b"", ttl=1)  # gives a sweep the occasion
    assert await store.get_many(["secret"]) == {"secret": b"first"}


async def test_put_new_respects_a_live_value_and_replaces_an_expired_one(store: EphemeralStore, clock: Clock) -> None:
    await store.put("a", b"one", ttl=10)
    assert await store.put_new("a", b"two") == b"one"
    clock.now += 10
    assert await store.put_new("a", b"two") == b"two"
    clock.now += 1e9
    assert await store.get_many(["a"]) == {"a": b"two"}


async def test_concurrent_put_new_agree_on_one_value(store: EphemeralStore) -> None:
    answers = await asyncio.gather(*(store.put_new("secret", bytes([n])) for n in range(20)))
    assert len(set(answers)) == 1
    assert await store.get_many(["secret"]) == {"secret": answers[0]}


@pytest.mark.parametrize("value", [b"", b"\x00", bytes(range(256)) * 8, b"\xff\xfe\x00text"])
async def test_values_are_any_bytes(store: EphemeralStore, value: bytes) -> None:
    await store.put("a", value)
    kept = (await store.get_many(["a"]))["a"]
    assert (kept, type(kept)) == (value, bytes)


async def test_keys_are_any_text(store: EphemeralStore) -> None:
    keys = [
        "",
        " ",
        "a/b",
        "'; DROP TABLE ephemeral; --",
        "%_*?[",
        "naïve",
        "nai\u0308ve",
        "日本語",
        "🧭",
        "a\x00b",
        "a\x00c",
        "\ud800",
        "x" * 10_000,
    ]
    for number, key in enumerate(keys):
        await store.put(key, b"%d" % number)
    assert await store.get_many(keys) == {key: b"%d" % number for number, key in enumerate(keys)}


async def test_keys_that_differ_only_in_case_are_different(store: EphemeralStore) -> None:
    await store.put("Key", b"upper")
    assert await store.get_many(["key"]) == {}


async def test_a_thousand_keys_come_back_at_once_even_when_asked_twice(store: EphemeralStore) -> None:
    kept = {f"call:{n}": b"%d" % n for n in range(1000)}
    await asyncio.gather(*(store.put(key, value, ttl=3600) for key, value in kept.items()))
    assert await store.get_many([*kept, "absent", *kept]) == kept


async def test_a_counter_returns_its_sum(store: EphemeralStore) -> None:
    assert [await store.add("requests", amount, 60) for amount in (1, 5, 0, -2)] == [1, 6, 6, 4]
    assert await store.add("tokens", 2**40, 60) == 2**40
    assert await store.get_many(["requests", "tokens"]) == {"requests": b"4", "tokens": b"%d" % 2**40}


async def test_additions_of_many_tasks_sum_exactly(store: EphemeralStore) -> None:
    sums = await asyncio.gather(*(store.add("c", 3, 60) for _ in range(200)))
    assert sorted(sums) == [3 * n for n in range(1, 201)]


async def test_a_counter_ends_its_ttl_after_its_first_addition(store: EphemeralStore, clock: Clock) -> None:
    await store.add("c", 1, 60)
    clock.now += 40
    assert await store.add("c", 1, 60) == 2  # which does not prolong it
    clock.now += 19
    assert await store.add("c", 1, 60) == 3
    clock.now += 2
    assert await store.add("c", 1, 60) == 1
    clock.now += 59
    assert await store.add("c", 1, 60) == 2


async def test_what_is_no_counter_cannot_be_added_to(store: EphemeralStore) -> None:
    await store.put("a", b"text")
    with pytest.raises(StoreError):
        await store.add("a", 1, 60)
    assert await store.get_many(["a"]) == {"a": b"text"}


async def test_several_counters_are_added_to_in_one_step_and_nothing_is_added_to_those_that_are_only_read(
    store: EphemeralStore, clock: Clock
) -> None:
    await store.add("old", 7, 60)
    assert await store.add_many({"a": 2, "old": 0, "b": -3, "never": 0}, 60) == {"a": 2, "old": 7, "b": -3, "never": 0}
    assert await store.add_many({"old": 1, "a": 1}, 60) == {"old": 8, "a": 3}
    assert await store.add_many({"a": 0, "b": 0}, 60) == {"a": 3, "b": -3}
    assert await store.add_many({}, 60) == {}
    assert await store.get_many(["a", "b", "old", "never"]) == {"a": b"3", "b": b"-3", "old": b"8"}
    clock.now += 61
    assert await store.add_many({"a": 1, "b": 0}, 60) == {"a": 1, "b": 0}


async def test_if_one_of_several_is_no_counter_none_is_added_to(store: EphemeralStore) -> None:
    await store.put("text", b"text")
    with pytest.raises(StoreError):
        await store.add_many({"a": 1, "text": 1, "b": 1}, 60)
    assert await store.get_many(["a", "b"]) == {}


async def test_additions_to_several_counters_by_many_tasks_sum_exactly(store: EphemeralStore) -> None:
    await asyncio.gather(*(store.add_many({"a": 1, "b": 2}, 60) for _ in range(100)))
    assert await store.add_many({"a": 0, "b": 0}, 60) == {"a": 100, "b": 200}


async def test_a_lease_has_one_owner_who_may_prolong_it(store: EphemeralStore, clock: Clock) -> None:
    assert await store.lease("leader", "one", 10)
    assert not await store.lease("leader", "two", 10)
    clock.now += 8
    assert await store.lease("leader", "one", 10)
    clock.now += 8
    assert not await store.lease("leader", "two", 10)
    assert await store.lease("another", "two", 10)


async def test_a_lease_is_taken_over_after_its_end(store: EphemeralStore, clock: Clock) -> None:
    await store.lease("leader", "one", 10)
    clock.now += 10
    assert await store.lease("leader", "two", 10)
    assert not await store.lease("leader", "one", 10)
    clock.now += 9
    assert not await store.lease("leader", "one", 10)


async def test_of_many_who_want_a_lease_one_gets_it(store: EphemeralStore) -> None:
    owners = [f"worker-{n}" for n in range(50)]
    granted = await asyncio.gather(*(store.lease("leader", owner, 10) for owner in owners))
    assert sum(granted) == 1
    again = await asyncio.gather(*(store.lease("leader", owner, 10) for owner in owners))
    assert again == granted


async def test_owners_of_a_lease_are_any_text(store: EphemeralStore) -> None:
    for number, owner in enumerate(["", "\ud800", "a\x00b", "A", "a", "ü"]):
        assert await store.lease(f"lease-{number}", owner, 10)
        assert not await store.lease(f"lease-{number}", owner + "x", 10)
        assert await store.lease(f"lease-{number}", owner, 10)


class Timeless(RedisEphemeralStore):
    """A mutant: keeps everything for good."""

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        await super().put(key, value)


class Overwriting(RedisEphemeralStore):
    """A mutant: the last one to make a secret wins."""

    async def put_new(self, key: str, value: bytes) -> bytes:
        await super().put(key, value)
        return value


class Listing(RedisEphemeralStore):
    """A mutant: answers for keys that hold nothing."""

    async def get_many(self, keys: Any) -> dict[str, bytes]:
        return dict.fromkeys(keys, b"") | await super().get_many(keys)


class Prolonging(RedisEphemeralStore):
    """A mutant: every addition gives the counter its whole time again."""

    async def add(self, key: str, amount: int, ttl: float) -> int:
        total = await super().add(key, amount, ttl)
        await super().put(key, b"%d" % total, ttl)
        return total


class ReadingFirst(RedisEphemeralStore):
    """A mutant: reads, adds and writes in three steps."""

    async def add(self, key: str, amount: int, ttl: float) -> int:
        total = int((await super().get_many([key])).get(key, b"0")) + amount
        await super().put(key, b"%d" % total, ttl)
        return total


class Halving(RedisEphemeralStore):
    """A mutant: adds to one counter after the other, in steps of its own."""

    async def add_many(self, amounts: Any, ttl: float) -> dict[str, int]:
        return {key: await super(Halving, self).add(key, amount, ttl) for key, amount in amounts.items()}


class Yielding(RedisEphemeralStore):
    """A mutant: whoever asks last has the lease."""

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        await super().put(key, owner.encode(), ttl)
        return True


MUTANTS: list[tuple[type[RedisEphemeralStore], Callable[..., Awaitable[None]]]] = [
    (Timeless, test_a_value_lives_until_its_ttl_and_no_longer),
    (Timeless, test_a_shorter_deadline_replaces_a_longer_one),
    (Overwriting, test_put_new_keeps_the_first_value_for_good),
    (Overwriting, test_put_new_respects_a_live_value_and_replaces_an_expired_one),
    (Listing, test_later_writes_do_not_revive_what_expired),
    (Prolonging, test_a_counter_ends_its_ttl_after_its_first_addition),
    (ReadingFirst, lambda store, _: test_additions_of_many_tasks_sum_exactly(store)),
    (Halving, lambda store, _: test_if_one_of_several_is_no_counter_none_is_added_to(store)),
    (Yielding, test_a_lease_has_one_owner_who_may_prolong_it),
    (Yielding, lambda store, _: test_of_many_who_want_a_lease_one_gets_it(store)),
]


@pytest.mark.parametrize(("mutant", "promise"), MUTANTS)
async def test_an_engine_that_breaks_a_promise_is_caught(
    mutant: type[RedisEphemeralStore],
    promise: Callable[..., Awaitable[None]],
    tmp_path: Path,
    clock: Clock,
    server: RedisServer,
) -> None:
    store = await open_redis(tmp_path, clock, server, mutant)
    with pytest.raises(AssertionError):
        await promise(store, clock)
    await store.close()
