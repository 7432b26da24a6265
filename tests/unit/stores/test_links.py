import asyncio
import json
from collections.abc import Sequence

import pytest

from gateway.errors import StoreError
from gateway.resources.base import LinkMaterial
from gateway.resources.fetch import Fetched, FetchError
from gateway.resources.guard import Refused
from gateway.settings import Links
from gateway.stores.links import CONCURRENCY, FIRST_RETRY, LinkCache, Record, due_at, guarded_fetch, spread

URL = "https://example.com/rules"
LIMITS = Links(interval=1000)


class Shelf:
    """An ephemeral store in a dict that can be made to fail."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.broken = False

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        if self.broken:
            raise StoreError("disk full")
        self.values[key] = value

    async def put_new(self, key: str, value: bytes) -> bytes:
        return self.values.setdefault(key, value)

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        if self.broken:
            raise StoreError("gone")
        return {key: self.values[key] for key in keys if key in self.values}

    async def close(self) -> None:
        """Nothing is held."""


class Web:
    """Pages by URL; an exception in place of a page is raised."""

    def __init__(self) -> None:
        self.pages: dict[str, Fetched | Exception] = {}
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.running = self.most = 0

    async def fetch(self, url: str, etag: str | None, last_modified: str | None) -> Fetched:
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
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(shelf, web, clock) -> LinkCache:
    return LinkCache(shelf, LIMITS, fetch=web.fetch, clock=clock)


def page(text: str, etag: str | None = None) -> Fetched:
    return Fetched(200, text, "text/html", etag, "Mon")


async def test_a_page_is_kept_with_its_age(cache, web, clock):
    assert cache.copy(URL) is None
    web.pages[URL] = page("Grüße")
    assert await cache.refresh(URL) is True
    clock.now += 90
    copy = cache.copy(URL)
    assert (copy.text, copy.age, copy.size, copy.error, copy.failures) == ("Grüße", 90, 7, None, 0)


async def test_an_unchanged_page_is_asked_for_conditionally_and_gets_young_again(cache, web, clock):
    web.pages[URL] = page("One", '"1"')
    await cache.refresh(URL)
    clock.now += 500
    web.pages[URL] = Fetched(304, None)
    assert await cache.refresh(URL) is False
    assert web.asked == [(URL, None, None), (URL, '"1"', "Mon")]
    assert (cache.copy(URL).text, cache.copy(URL).age) == ("One", 0)
    await cache.refresh(URL)
    assert web.asked[-1] == (URL, '"1"', "Mon")


async def test_the_same_text_again_is_no_change(cache, web):
    web.pages[URL] = page("One")
    assert [await cache.refresh(URL), await cache.refresh(URL)] == [True, False]


@pytest.mark.parametrize(
    "failure", [FetchError("it is down"), Refused("it is private"), ValueError("odd"), page(" \n")]
)
async def test_a_failure_keeps_the_last_good_copy(cache, web, clock, failure):
    web.pages[URL] = page("One")
    await cache.refresh(URL)
    clock.now += 100
    web.pages[URL] = failure
    assert [await cache.refresh(URL), await cache.refresh(URL)] == [False, False]
    copy = cache.copy(URL)
    assert (copy.text, copy.age, copy.failures) == ("One", 100, 2)
    assert copy.error


async def test_a_link_that_never_worked_has_no_copy(cache, web):
    web.pages[URL] = FetchError("it is down")
    assert await cache.refresh(URL) is False
    assert cache.copy(URL) is None


async def test_a_copy_survives_a_restart(cache, shelf, web, clock):
    web.pages[URL] = page("One", '"1"')
    await cache.refresh(URL)
    stored = json.loads(next(iter(shelf.values.values())))
    assert next(iter(shelf.values)).startswith("link:")
    assert set(stored) >= {"text", "fetched_at", "etag", "last_modified", "size", "error", "failures"}

    clock.now += 10
    later = LinkCache(shelf, LIMITS, fetch=web.fetch, clock=clock)
    await later.load([URL, "https://example.com/unknown"])
    assert (later.copy(URL).text, later.copy(URL).age) == ("One", 10)
    await later.refresh(URL)
    assert web.asked[-1] == (URL, '"1"', "Mon")


async def test_what_is_in_memory_is_newer_than_what_is_stored(cache, shelf, web):
    web.pages[URL] = page("Old")
    await cache.refresh(URL)
    shelf.broken = True
    web.pages[URL] = page("New")
    await cache.refresh(URL)
    shelf.broken = False
    await cache.load([URL])
    assert cache.copy(URL).text == "New"


async def test_a_stored_copy_that_is_not_readable_is_passed_over(cache, shelf, web):
    web.pages[URL] = page("One")
    await cache.refresh(URL)
    shelf.values = dict.fromkeys(shelf.values, b'{"text": 5}')
    later = LinkCache(shelf, LIMITS, fetch=web.fetch)
    await later.load([URL])
    assert later.copy(URL) is None


async def test_a_broken_store_does_not_stop_refreshing(cache, shelf, web):
    shelf.broken = True
    web.pages[URL] = page("One")
    await cache.load([URL])
    assert await cache.refresh(URL) is True
    assert cache.copy(URL).text == "One"


class Changes:
    """Counts changes and lets a test wait for them."""

    def __init__(self) -> None:
        self.count = 0
        self._news = asyncio.Event()

    async def __call__(self) -> None:
        self.count += 1
        self._news.set()

    async def wait(self) -> None:
        async with asyncio.timeout(2):
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
    for _ in range(20):
        await asyncio.sleep(0)


async def test_tracked_links_are_fetched_and_changes_are_told(cache, web, changes):
    web.pages[URL] = page("One")
    cache.track([LinkMaterial(URL, 0)])
    await changes.wait()
    assert cache.copy(URL).text == "One"
    await settle()
    assert (len(web.asked), changes.count) == (1, 1)


async def test_a_link_is_asked_for_again_only_when_it_is_due(cache, web, clock, changes):
    web.pages[URL] = page("One")
    cache.track([LinkMaterial(URL, 200), LinkMaterial(URL, 0)])
    await changes.wait()
    for passed, asked in ((200 * 0.89, 1), (200 * 0.22, 2)):
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
    assert cache.copy("https://example.com/b").text == "B"
    assert len(web.asked) == 2


async def test_only_a_few_links_are_asked_for_at_once(cache, web, changes):
    web.pages = {f"https://example.com/{number}": page("x") for number in range(10)}
    cache.track([LinkMaterial(url, 0) for url in web.pages])
    while len(web.asked) < 10:
        await changes.wait()
    assert web.most == CONCURRENCY


async def test_the_loop_wakes_by_itself_when_a_link_is_due(shelf, web):
    cache = LinkCache(shelf, Links(interval=0.05), fetch=web.fetch)
    web.pages[URL] = page("One")
    cache.track([LinkMaterial(URL, 0)])
    heard = Changes()
    task = asyncio.create_task(cache.run(heard))
    await heard.wait()
    web.pages[URL] = page("Two")
    await heard.wait()
    task.cancel()
    assert cache.copy(URL).text == "Two"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, 0),
        (Record(text="x", fetched_at=100), 100 + 86_400),
        (Record(tried_at=100, failures=1), 100 + FIRST_RETRY),
        (Record(tried_at=100, failures=4), 100 + FIRST_RETRY * 8),
        (Record(text="x", fetched_at=1, tried_at=100, failures=30), 100 + 86_400),
    ],
)
def test_retries_come_sooner_than_refreshes_and_then_less_and_less_often(record, expected):
    assert due_at(record, 86_400, 1.0) == expected


def test_links_are_spread_by_a_tenth():
    factors = {spread(f"https://example.com/{number}") for number in range(200)}
    assert all(0.9 <= factor <= 1.1 for factor in factors)
    assert len(factors) > 50


async def test_the_default_fetch_stands_behind_the_guard():
    with pytest.raises(Refused, match="not on the public Internet"):
        await guarded_fetch(LIMITS)("http://127.0.0.1:8080/", None, None)
