import pytest

from gateway.errors import StoreError, StoreFull
from gateway.stores.memory_ephemeral import ENTRY_OVERHEAD, MemoryEphemeralStore
from gateway.stores.open import open_stores

ROOM_FOR_THREE = 3 * (ENTRY_OVERHEAD + 101)


async def test_what_expires_first_makes_room_for_the_new() -> None:
    store = MemoryEphemeralStore(max_bytes=ROOM_FOR_THREE)
    for key, ttl in (("a", 30), ("b", 10), ("c", 20)):
        await store.put(key, b"x" * 100, ttl=ttl)
    await store.put("d", b"x" * 100, ttl=5)
    assert set(await store.get_many("abcd")) == {"a", "c", "d"}


async def test_what_is_kept_for_good_is_never_forgotten() -> None:
    store = MemoryEphemeralStore(max_bytes=ROOM_FOR_THREE)
    for key in "abc":
        await store.put_new(key, b"x" * 100)
    with pytest.raises(StoreFull, match="full"):
        await store.put("d", b"x", ttl=10)
    assert set(await store.get_many("abcd")) == {"a", "b", "c"}


async def test_a_refused_value_leaves_the_former_one() -> None:
    store = MemoryEphemeralStore(max_bytes=1000)
    await store.put("a", b"small", ttl=10)
    with pytest.raises(StoreError):
        await store.put("a", b"x" * 1000, ttl=10)
    assert await store.get_many(["a"]) == {"a": b"small"}


async def test_overwriting_one_key_for_ever_costs_no_memory() -> None:
    store = MemoryEphemeralStore()
    for _ in range(1000):
        await store.put("a", b"x", ttl=3600)
    assert len(store._deadlines) < 100


async def test_expired_entries_are_dropped_by_the_next_write() -> None:
    now = 0.0
    store = MemoryEphemeralStore(clock=lambda: now)
    for number in range(100):
        await store.put(str(number), b"x", ttl=1)
    now = 1.0
    await store.put("new", b"x", ttl=1)
    assert list(store._entries) == ["new"]


async def test_the_memory_url_opens_it() -> None:
    assert isinstance((await open_stores("memory:")).ephemeral, MemoryEphemeralStore)
    assert isinstance((await open_stores("memory://")).ephemeral, MemoryEphemeralStore)
