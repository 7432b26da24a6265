"""How many calls it takes to read the stored copies of linked pages: each of them is a turn of the event loop."""

from collections.abc import Sequence

import msgspec
import pytest

from gateway.links.cache import READ_AT_ONCE, SMALL_BYTES, LinkCache
from gateway.links.page import FetchedPage
from gateway.links.record import LinkRecord, make_store_key
from gateway.settings import LinkSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore

URLS = [f"https://example.com/{number}" for number in range(100)]


class CountingStore(MemoryEphemeralStore):
    """Notes how many copies each call asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        if copies := sum(key.startswith("link:") for key in keys):
            self.calls.append(copies)
        return await super().get_many(keys)


async def fetch_nothing(url: str, etag: str | None, last_modified: str | None, workspace: str) -> FetchedPage:
    raise AssertionError(url)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def cache(store: CountingStore) -> LinkCache:
    return LinkCache(store, LinkSettings(), fetch=fetch_nothing)


async def keep(store: CountingStore, url: str, text: str) -> None:
    await store.put(make_store_key(url), msgspec.json.encode(LinkRecord(text=text, fetched_at=1, size=len(text))))


async def test_links_without_a_copy_are_looked_up_many_at_once(cache, store):
    await cache.load(URLS)
    assert sum(store.calls) == len(URLS)
    assert len(store.calls) <= len(URLS) / READ_AT_ONCE + 5


async def test_small_copies_are_all_read(cache, store):
    for url in URLS:
        await keep(store, url, f"About {url}")
    await cache.load(URLS)
    assert [cache.find_copy(url).text for url in URLS] == [f"About {url}" for url in URLS]
    assert len(store.calls) < 20


async def test_large_copies_are_read_one_by_one(cache, store):
    for url in URLS[:10]:
        await keep(store, url, "a" * (SMALL_BYTES + 1))
    await cache.load(URLS[:10])
    assert store.calls == [1] * 10


async def test_a_large_copy_among_small_ones_makes_the_next_calls_small(cache, store):
    await keep(store, URLS[2], "a" * (SMALL_BYTES + 1))
    await cache.load(URLS[:10])
    assert store.calls == [1, 2, 1, 2, 4]
