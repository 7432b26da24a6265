"""What /readyz learns of the store."""

from collections.abc import Sequence

import pytest

from gateway.errors import StoreError
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.monitored import MonitoredStore


class Flaky(MemoryEphemeralStore):
    broken = False

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        if self.broken:
            raise StoreError("gone")
        return await super().get_many(keys)


async def test_a_store_is_not_ok_from_a_failure_until_the_next_success() -> None:
    store = Flaky()
    monitored = MonitoredStore(store)
    await monitored.put("k", b"v")
    assert monitored.ok
    store.broken = True
    with pytest.raises(StoreError):
        await monitored.get_many(["k"])
    assert not monitored.ok
    store.broken = False
    assert await monitored.get_many(["k"]) == {"k": b"v"}
    assert monitored.ok


async def test_counters_and_leases_are_passed_on_and_watched() -> None:
    monitored = MonitoredStore(MemoryEphemeralStore())
    assert [await monitored.add("c", 2, 60), await monitored.add("c", 3, 60)] == [2, 5]
    assert [await monitored.lease("l", owner, 60) for owner in ("one", "two", "one")] == [True, False, True]
    with pytest.raises(StoreError):
        await monitored.add("l", 1, 60)
    assert not monitored.ok
    assert await monitored.lease("l", "one", 60)
    assert monitored.ok
