import pytest

from gateway.links.announcements import COUNTER_KEY, MAX_ANNOUNCEMENTS, LinkAnnouncements
from gateway.stores.memory_ephemeral import MemoryEphemeralStore


@pytest.fixture
def store() -> MemoryEphemeralStore:
    return MemoryEphemeralStore()


async def test_announcements_are_read_once_in_any_order_and_never_lost(store):
    mine, other = LinkAnnouncements(store), LinkAnnouncements(store)
    assert await mine.read_changed_keys() == set()
    await other.announce("a")
    await other.announce("b")
    assert await mine.read_changed_keys() == {"a", "b"}
    assert await mine.read_changed_keys() == set()
    await store.add(COUNTER_KEY, 1, 60)  # another replica took a number and has not announced anything yet
    await other.announce("c")
    assert await mine.read_changed_keys() == {"c"}
    await store.put(f"{COUNTER_KEY}:3", b"late")
    assert await mine.read_changed_keys() == {"late"}
    assert await mine.read_changed_keys() == set()


async def test_a_replica_that_missed_too_much_or_meets_an_emptied_store_reads_everything(store):
    mine = LinkAnnouncements(store)
    await mine.read_changed_keys()
    await store.add(COUNTER_KEY, MAX_ANNOUNCEMENTS + 1, 60)
    assert await mine.read_changed_keys() is None
    assert await mine.read_changed_keys() == set()
    await store.close()
    assert await mine.read_changed_keys() is None
