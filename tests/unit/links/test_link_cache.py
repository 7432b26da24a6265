import asyncio
import json
from collections.abc import Sequence

import pytest

from gateway.domain.material import LinkMaterial
from gateway.errors import StoreError, WorkspaceBusy
from gateway.links.cache import CONCURRENCY, Fetch, LinkCache, LinkTimings, make_guarded_fetch
from gateway.links.guard import LinkRefused
from gateway.links.page import FetchedPage, FetchError
from gateway.links.record import FIRST_RETRY_SECONDS, make_store_key
from gateway.settings import LinkSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore

URL = "https://example.com/rules"
LIMITS = LinkSettings(interval=1000)


class FlakyStore(MemoryEphemeralStore):
    """A store that can be made to fail, and that counts how much is read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.read = 0

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        self._fail()
        await super().put(key, value, ttl)

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        self._fail()
        found = await super().get_many(keys)
        self.read += sum(map(len, found.values()))
        return found

    async def add(self, key: str, amount: int, ttl: float) -> int:
        self._fail()
        return await super().add(key, amount, ttl)

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        self._fail()
        return await super().lease(key, owner, ttl)

    def _fail(self) -> None:
        if self.broken:
            raise StoreError("gone")


class Web:
    """Pages by URL; an exception in place of a page is raised."""

    def __init__(self) -> None:
        self.pages: dict[str, FetchedPage | Exception] = {}
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.running = self.most = 0

    async def fetch(self, url: str, etag: str | None, last_modified: str | None, workspace: str = "") -> FetchedPage:
        self.asked.append((url, etag, last_modified))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        page = self.pages[url]
        if isinstance(page, Exception):
            raise page
        return page


class Clock:
    now = 10_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> FlakyStore:
    return FlakyStore()


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(store, web, clock) -> LinkCache:
    return LinkCache(store, LIMITS, fetch=web.fetch, clock=clock)


def page(text: str, etag: str | None = None) -> FetchedPage:
    return FetchedPage(200, text, "text/html", etag, "Mon")


async def test_a_page_is_kept_with_its_age(cache, web, clock):
    assert cache.find_copy(URL) is None
    web.pages[URL] = page("Grüße")
    assert await cache.refresh(URL) is True
    clock.now += 90
    copy = cache.find_copy(URL)
    assert (copy.text, copy.age, copy.size, copy.error, copy.failures) == ("Grüße", 90, 7, None, 0)


async def test_an_unchanged_page_is_asked_for_conditionally_and_gets_young_again(cache, web, clock):
    web.pages[URL] = page("One", '"1"')
    await cache.refresh(URL)
    clock.now += 500
    web.pages[URL] = FetchedPage(304, None)
    assert await cache.refresh(URL) is False
    assert web.asked == [(URL, None, None), (URL, '"1"', "Mon")]
    assert (cache.find_copy(URL).text, cache.find_copy(URL).age) == ("One", 0)
    await cache.refresh(URL)
    assert web.asked[-1] == (URL, '"1"', "Mon")


async def test_the_same_text_again_is_no_change(cache, web):
    web.pages[URL] = page("One")
    assert [await cache.refresh(URL), await cache.refresh(URL)] == [True, False]


@pytest.mark.parametrize(
    "failure", [FetchError("it is down"), LinkRefused("it is private"), ValueError("odd"), page(" \n")]
)
async def test_a_failure_keeps_the_last_good_copy(cache, web, clock, failure):
    web.pages[URL] = page("One")
    await cache.refresh(URL)
    clock.now += 100
    web.pages[URL] = failure
    assert [await cache.refresh(URL), await cache.refresh(URL)] == [False, False]
    copy = cache.find_copy(URL)
    assert (copy.text, copy.age, copy.failures) == ("One", 100, 2)
    assert copy.error


async def test_a_link_that_never_worked_has_no_copy(cache, web):
    web.pages[URL] = FetchError("it is down")
    assert await cache.refresh(URL) is False
    assert cache.find_copy(URL) is None


async def test_a_copy_survives_a_restart(cache, store, web, clock):
    web.pages[URL] = page("One", '"1"')
    await cache.refresh(URL)
    stored = json.loads((await store.get_many([make_store_key(URL)]))[make_store_key(URL)])
    assert set(stored) >= {"text", "fetched_at", "etag", "last_modified", "size", "error", "failures"}

    clock.now += 10
    later = LinkCache(store, LIMITS, fetch=web.fetch, clock=clock)
    await later.load([URL, "https://example.com/unknown"])
    copy = later.find_copy(URL)
    assert copy is not None
    assert (copy.text, copy.age) == ("One", 10)
    await later.refresh(URL)
    assert web.asked[-1] == (URL, '"1"', "Mon")


async def test_what_is_in_memory_is_newer_than_what_is_stored(cache, store, web):
    web.pages[URL] = page("Old")
    await cache.refresh(URL)
    store.broken = True
    web.pages[URL] = page("New")
    await cache.refresh(URL)
    store.broken = False
    await cache.load([URL])
    assert cache.find_copy(URL).text == "New"


async def test_a_stored_copy_that_cannot_be_decoded_is_ignored(cache, store, web):
    web.pages[URL] = page("One")
    await cache.refresh(URL)
    await store.put(make_store_key(URL), b'{"text": 5}')
    later = LinkCache(store, LIMITS, fetch=web.fetch)
    await later.load([URL])
    assert later.find_copy(URL) is None


async def test_a_broken_store_does_not_stop_refreshing(cache, store, web):
    store.broken = True
    web.pages[URL] = page("One")
    await cache.load([URL])
    assert await cache.refresh(URL) is True
    assert cache.find_copy(URL).text == "One"


class Changes:
    """Counts changes and lets a test wait for them."""

    def __init__(self) -> None:
        self.count = 0
        self._news = asyncio.Event()

    async def __call__(self, urls: frozenset[str] = frozenset()) -> None:
        self.count += 1
        self._news.set()

    async def wait(self) -> None:
        async with asyncio.timeout(10):
            await self._news.wait()
        self._news.clear()


@pytest.fixture
async def changes(cache):
    heard = Changes()
    task = asyncio.create_task(cache.run(heard))
    yield heard
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_tracked_links_are_fetched_and_changes_are_told(cache, web, changes):
    web.pages[URL] = page("One")
    cache.track([LinkMaterial(URL, 0)])
    await changes.wait()
    assert cache.find_copy(URL).text == "One"
    await settle()
    assert (len(web.asked), changes.count) == (1, 1)


async def test_a_link_is_asked_for_again_only_when_it_is_due(cache, web, clock, changes):
    web.pages[URL] = page("One")
    cache.track([LinkMaterial(URL, 200), LinkMaterial(URL, 0)])
    await changes.wait()
    for passed, asked in ((200 * 0.89, 1), (200 * 0.24, 2)):
        clock.now += passed
        cache.track([LinkMaterial(URL, 200)])
        await settle()
        assert len(web.asked) == asked


async def test_links_that_are_no_longer_tracked_are_left_alone(cache, web, clock, changes):
    web.pages[URL] = page("One")
    cache.track([LinkMaterial(URL, 0)])
    await changes.wait()
    clock.now += 10_000
    cache.track([])
    await settle()
    assert len(web.asked) == 1


async def test_a_failing_link_neither_stops_the_loop_nor_is_it_hammered(cache, web, changes):
    web.pages = {URL: FetchError("down"), "https://example.com/b": page("B")}
    cache.track([LinkMaterial(url, 0) for url in web.pages])
    await changes.wait()
    await settle()
    assert cache.find_copy("https://example.com/b").text == "B"
    assert len(web.asked) == 2


async def test_only_a_few_links_are_asked_for_at_once(cache, web, changes):
    web.pages = {f"https://example.com/{number}": page("x") for number in range(10)}
    cache.track([LinkMaterial(url, 0) for url in web.pages])
    while len(web.asked) < 10:
        await changes.wait()
    assert web.most == CONCURRENCY


async def test_a_thousand_slow_links_of_one_workspace_delay_nobody_elses(store, web):
    slow = [f"https://slow.example/{number}" for number in range(1000)]
    for_ever = asyncio.Event()

    async def fetch(url: str, etag: str | None, last_modified: str | None, workspace: str) -> FetchedPage:
        if url in slow:
            await for_ever.wait()
        return await web.fetch(url, etag, last_modified, workspace)

    cache = LinkCache(store, LIMITS, fetch=fetch)
    heard = Changes()
    task = asyncio.create_task(cache.run(heard))
    cache.track([LinkMaterial(url, 0) for url in slow], {url: ["hostile"] for url in slow})
    await settle()
    web.pages[URL] = page("One")
    links = [LinkMaterial(url, 0) for url in [*slow, URL]]
    cache.track(links, {url: ["hostile"] for url in slow} | {URL: ["hostile", "honest"]})
    await heard.wait()
    copy = cache.find_copy(URL)
    assert copy is not None
    assert copy.text == "One"
    assert sum(status.tried_at is not None for url in slow if (status := cache.find_status(url))) == 0
    with pytest.raises(WorkspaceBusy):
        await asyncio.gather(*(cache.refresh(url, "hostile") for url in slow[:100]))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_loop_wakes_by_itself_when_a_link_is_due(store, web):
    cache = LinkCache(store, LinkSettings(interval=0.05), fetch=web.fetch)
    web.pages[URL] = page("One")
    cache.track([LinkMaterial(URL, 0)])
    heard = Changes()
    task = asyncio.create_task(cache.run(heard))
    await heard.wait()
    web.pages[URL] = page("Two")
    await heard.wait()
    task.cancel()
    copy = cache.find_copy(URL)
    assert copy is not None
    assert copy.text == "Two"


async def test_the_default_fetch_stands_behind_the_guard():
    with pytest.raises(LinkRefused, match="not on the public Internet"):
        await make_guarded_fetch(LIMITS)("http://127.0.0.1:8080/", None, None, "")


class Cluster:
    """Several replicas on one store and one web, each with its own loop."""

    def __init__(self, store: FlakyStore, fetch: Fetch, clock: Clock, timings: LinkTimings) -> None:
        self.caches = [LinkCache(store, LIMITS, fetch=fetch, clock=clock, timings=timings) for _ in range(3)]
        self.heard = [Changes() for _ in self.caches]
        self.tasks = [asyncio.create_task(one.run(heard)) for one, heard in zip(self.caches, self.heard, strict=True)]

    def track(self, *urls: str) -> None:
        for cache in self.caches:
            cache.track([LinkMaterial(url, 0) for url in urls])

    async def until_all_have(self, text: str) -> None:
        async with asyncio.timeout(3):
            for cache, heard in zip(self.caches, self.heard, strict=True):
                while (copy := cache.find_copy(URL)) is None or copy.text != text:
                    await heard.wait()

    async def kill(self, replica: int) -> None:
        self.tasks[replica].cancel()
        await asyncio.gather(self.tasks[replica], return_exceptions=True)
        del self.caches[replica], self.heard[replica], self.tasks[replica]

    async def stop(self) -> None:
        while self.tasks:
            await self.kill(0)


@pytest.fixture
async def cluster(store, web, clock):
    cluster = Cluster(store, web.fetch, clock, LinkTimings(poll=0.05))
    yield cluster
    await cluster.stop()


async def test_of_several_replicas_one_fetches_and_all_get_the_copy(cluster, web, clock):
    web.pages[URL] = page("One")
    cluster.track(URL)
    await cluster.until_all_have("One")
    assert len(web.asked) == 1
    web.pages[URL] = page("Two")
    clock.now += 1200
    cluster.track(URL)
    await cluster.until_all_have("Two")
    assert len(web.asked) == 2


async def test_a_failure_is_known_everywhere_and_nobody_else_tries(cluster, web):
    web.pages[URL] = FetchError("it is down")
    cluster.track(URL)
    await asyncio.sleep(0.3)
    assert len(web.asked) == 1
    assert [cache.find_status(URL).error for cache in cluster.caches] == ["it is down"] * 3


async def test_when_the_replica_that_fetches_dies_another_takes_over_once_its_lease_has_ended(store, web, clock):
    stuck = asyncio.Event()

    async def hang_once(url: str, etag: str | None, last_modified: str | None, workspace: str = "") -> FetchedPage:
        if not stuck.is_set():
            stuck.set()
            await asyncio.Event().wait()
        return await web.fetch(url, etag, last_modified)

    cluster = Cluster(store, hang_once, clock, LinkTimings(poll=0.05, lease=0.3))
    web.pages[URL] = page("One")
    cluster.track(URL)
    await asyncio.wait_for(stuck.wait(), 3)
    await asyncio.sleep(0.5)
    assert web.asked == []  # the holder works and renews its lease
    (victim,) = [number for number, cache in enumerate(cluster.caches) if cache._attempts]
    await cluster.kill(victim)
    await cluster.until_all_have("One")
    assert len(web.asked) == 1
    await cluster.stop()


async def test_a_refresh_on_demand_reaches_the_other_replicas(cluster, web):
    web.pages[URL] = page("One")
    cluster.track(URL)
    await cluster.until_all_have("One")
    web.pages[URL] = page("Two")
    assert await cluster.caches[2].refresh(URL) is True
    assert cluster.caches[2].find_copy(URL).text == "Two"
    await cluster.until_all_have("Two")
    assert len(web.asked) == 2


async def test_a_link_that_is_tracked_later_is_taken_from_the_store(cluster, web):
    web.pages[URL] = page("One")
    cluster.caches[0].track([LinkMaterial(URL, 0)])
    await cluster.heard[0].wait()
    cluster.caches[1].track([LinkMaterial(URL, 0)])
    await cluster.heard[1].wait()
    assert (cluster.caches[1].find_copy(URL).text, len(web.asked)) == ("One", 1)


async def test_replicas_that_wait_do_not_read_the_copies_again(cluster, store, web):
    web.pages[URL] = page("x" * 100_000)
    cluster.track(URL)
    await cluster.until_all_have("x" * 100_000)
    await asyncio.sleep(0.1)
    before = store.read
    await asyncio.sleep(0.5)
    assert store.read - before < 1000


async def test_without_the_store_every_replica_waits_and_then_fetches_rarely(cluster, store, web, clock):
    store.broken = True
    web.pages[URL] = page("One")
    cluster.track(URL)
    await asyncio.sleep(0.2)
    assert web.asked == []
    clock.now += 130
    cluster.track(URL)
    await cluster.until_all_have("One")
    assert len(web.asked) == 3
    clock.now += 1200  # due, but nobody has noticed that the copy is a bit older
    cluster.track(URL)
    await asyncio.sleep(0.2)
    assert len(web.asked) == 3
    clock.now += 1200
    cluster.track(URL)
    await asyncio.sleep(0.2)
    assert len(web.asked) == 6
    store.broken = False
    clock.now += 1200
    web.pages[URL] = page("Two")
    cluster.track(URL)
    await cluster.until_all_have("Two")
    assert len(web.asked) == 7


async def test_a_change_that_the_store_could_not_give_is_asked_for_again(cluster, store, web):
    web.pages[URL] = page("One")
    cluster.track(URL)
    await cluster.until_all_have("One")
    web.pages[URL] = page("Two")
    get_many = MemoryEphemeralStore.get_many

    async def shy(self: MemoryEphemeralStore, keys: Sequence[str]) -> dict[str, bytes]:
        if make_store_key(URL) in keys and shy_for[0]:
            shy_for[0] -= 1
            raise StoreError("busy")
        return await get_many(self, keys)

    shy_for = [4]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryEphemeralStore, "get_many", shy)
        await cluster.caches[0].refresh(URL)
        await cluster.until_all_have("Two")
    assert shy_for == [0]


async def test_two_who_want_the_same_page_at_once_share_one_attempt(cache, web):
    web.pages[URL] = page("One")
    assert await asyncio.gather(cache.refresh(URL), cache.refresh(URL)) == [True, True]
    assert len(web.asked) == 1


async def test_the_status_of_a_link(cache, web, clock):
    assert cache.find_status(URL) is None
    cache.track([LinkMaterial(URL, 200)])
    unknown = cache.find_status(URL)
    assert (unknown.fetched_at, unknown.tried_at, unknown.size, unknown.age) == (None, None, None, None)
    assert (unknown.error, unknown.failures, unknown.due_at) == (None, 0, clock.now)
    web.pages[URL] = page("Grüße")
    await cache.refresh(URL)
    fetched = clock.now
    clock.now += 50
    web.pages[URL] = FetchError("it is down")
    await cache.refresh(URL)
    clock.now += 5
    status = cache.find_status(URL)
    assert (status.fetched_at, status.tried_at, status.size, status.age) == (fetched, fetched + 50, 7, 55)
    assert (status.error, status.failures) == ("it is down", 1)
    assert fetched + 50 + 0.9 * FIRST_RETRY_SECONDS <= status.due_at <= fetched + 50 + 1.1 * FIRST_RETRY_SECONDS + 4
