"""What /readyz learns of the store."""

from collections.abc import Sequence

import pytest

from gateway.errors import StoreError
from gateway.stores.memory_ephemeral import MemoryStore
from gateway.stores.monitored import MonitoredStore


class Flaky(MemoryStore):
    broken = False

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        if self.broken:
            raise StoreError("gone")
        return await super().get_many(keys)


async def test_a_store_is_not_ok_from_a_failure_until_the_next_success() -> None:
    store = Flaky()
    watched = MonitoredStore(store)
    await watched.put("k", b"v")
    assert watched.ok
    store.broken = True
    with pytest.raises(StoreError):
        await watched.get_many(["k"])
    assert not watched.ok
    store.broken = False
    assert await watched.get_many(["k"]) == {"k": b"v"}
    assert watched.ok


async def test_counters_and_leases_are_passed_on_and_watched() -> None:
    watched = MonitoredStore(MemoryStore())
    assert [await watched.add("c", 2, 60), await watched.add("c", 3, 60)] == [2, 5]
    assert [await watched.lease("l", owner, 60) for owner in ("one", "two", "one")] == [True, False, True]
    with pytest.raises(StoreError):
        await watched.add("l", 1, 60)
    assert not watched.ok
    assert await watched.lease("l", "one", 60)
    assert watched.ok
