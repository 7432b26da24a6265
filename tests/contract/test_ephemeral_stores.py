"""What every EphemeralStore promises, run on each engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gateway.stores.base import EphemeralStore
from gateway.stores.memory import MemoryStore
from gateway.stores.sqlite import SqliteStore


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def memory(_: Path, clock: Clock) -> EphemeralStore:
    return MemoryStore(clock=clock)


async def sqlite(folder: Path, clock: Clock) -> EphemeralStore:
    return await SqliteStore.open(folder / "gateway.db", clock=clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=[memory, sqlite], ids=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[EphemeralStore]:
    open_engine: Callable[[Path, Clock], Awaitable[EphemeralStore]] = request.param
    opened = await open_engine(tmp_path, clock)
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
