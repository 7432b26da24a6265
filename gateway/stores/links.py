"""The last good copy of every linked page, refreshed in the background and never during a chat."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from gateway.errors import StoreError
from gateway.resources.base import LinkMaterial
from gateway.resources.fetch import Fetched, FetchError, fetch
from gateway.resources.guard import Guard
from gateway.settings import Links
from gateway.stores.base import EphemeralStore

CONCURRENCY = 4
FIRST_RETRY = 60.0  # seconds; doubles with every failure up to the link's own interval
LONGEST_SLEEP = 3600.0

Fetch = Callable[[str, str | None, str | None], Awaitable[Fetched]]  # url, etag, last_modified

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LinkCopy:
    """What is known of a page now."""

    text: str
    age: float  # seconds since the server last confirmed it
    size: int  # bytes of text
    error: str | None  # why the latest attempt failed, if it did
    failures: int


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of a link between attempts and restarts."""

    text: str | None = None
    fetched_at: float = 0
    tried_at: float = 0
    etag: str | None = None
    last_modified: str | None = None
    size: int = 0
    error: str | None = None
    failures: int = 0


class LinkCache:
    """Copies of the pages that policies link to; everything but `run`, `refresh` and `load` answers from memory."""

    def __init__(
        self,
        store: EphemeralStore,
        limits: Links,
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._limits = limits
        self._fetch = fetch or guarded_fetch(limits)
        self._clock = clock
        self._records: dict[str, Record] = {}
        self._intervals: dict[str, float] = {}
        self._wake = asyncio.Event()

    def copy(self, url: str) -> LinkCopy | None:
        """The last good copy, however old; None if there never was one."""
        record = self._records.get(url)
        if record is None or record.text is None:
            return None
        age = max(0.0, self._clock() - record.fetched_at)
        return LinkCopy(record.text, age, record.size, record.error, record.failures)

    def track(self, links: Iterable[LinkMaterial]) -> None:
        """Keep these links fresh from now on, and no others; called on the event loop."""
        intervals: dict[str, float] = {}
        for link in links:
            wanted = link.interval or self._limits.interval
            intervals[link.url] = min(wanted, intervals.get(link.url, wanted))
        self._intervals = intervals
        self._wake.set()

    async def load(self, urls: Iterable[str]) -> None:
        """Take over the copies of an earlier run; without the store they are fetched anew."""
        missing = {_key(url): url for url in urls if url not in self._records}
        try:
            found = await self._store.get_many(list(missing))
        except StoreError as error:
            log.warning("copies of links could not be loaded: %s", error)
            return
        for key, value in found.items():
            try:
                self._records[missing[key]] = msgspec.json.decode(value, type=Record)
            except msgspec.DecodeError as error:
                log.warning("a stored copy of a link is not readable: %s", error)

    async def run(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Refresh what is due until cancelled; `on_change`, which must not raise, is awaited when a text is new."""
        while True:
            self._wake.clear()
            if due := self._due():
                if await self._refresh_batch(due[:CONCURRENCY]):
                    await on_change()
            else:
                await self._sleep()

    async def refresh(self, url: str) -> bool:
        """Ask for the page now; whether its text is new. A failure keeps the copy at hand and is noted in it."""
        former = self._records.get(url, Record())
        try:
            fetched = await self._fetch(url, former.etag, former.last_modified)
            record = _succeeded(former, fetched, self._clock())
        except ValueError as error:  # LinkError, or what a parser makes of a hostile reply
            log.warning("link %s was not refreshed: %s", url.partition("?")[0], error)
            record = replace(former, tried_at=self._clock(), error=str(error), failures=former.failures + 1)
        self._records[url] = record
        await self._keep(url, record)
        return record.text != former.text

    async def _refresh_batch(self, urls: Sequence[str]) -> bool:
        async with asyncio.TaskGroup() as group:
            attempts = [group.create_task(self.refresh(url)) for url in urls]
        return any(attempt.result() for attempt in attempts)

    async def _keep(self, url: str, record: Record) -> None:
        try:
            await self._store.put(_key(url), msgspec.json.encode(record))
        except StoreError as error:
            log.warning("the copy of a link could not be stored: %s", error)

    def _due(self) -> list[str]:
        now = self._clock()
        return [url for url in self._intervals if self._due_at(url) <= now]

    def _due_at(self, url: str) -> float:
        return due_at(self._records.get(url), self._intervals[url], spread(url))

    async def _sleep(self) -> None:
        wait = min((self._due_at(url) - self._clock() for url in self._intervals), default=LONGEST_SLEEP)
        try:
            async with asyncio.timeout(min(max(wait, 0.0), LONGEST_SLEEP)):
                await self._wake.wait()
        except TimeoutError:
            return


def due_at(record: Record | None, interval: float, factor: float) -> float:
    """When a link is asked for next: at once, after its interval, or sooner after a failure."""
    if record is None:
        return 0
    if record.failures:
        backoff = FIRST_RETRY * 2.0 ** min(record.failures - 1, 20)
        return record.tried_at + min(interval, backoff) * factor
    return record.fetched_at + interval * factor


def spread(url: str) -> float:
    """0.9 to 1.1, the same for a link each time: links of one policy are not all asked for at one moment."""
    return 0.9 + 0.2 * hashlib.sha256(url.encode()).digest()[0] / 255


def guarded_fetch(limits: Links) -> Fetch:
    """Fetching under the configured limits, with the guard in front."""
    guard = Guard(limits.allow)

    async def get(url: str, etag: str | None, last_modified: str | None) -> Fetched:
        return await fetch(url, guard=guard, limits=limits, etag=etag, last_modified=last_modified)

    return get


def _succeeded(former: Record, fetched: Fetched, now: float) -> Record:
    if fetched.text is None:  # 304
        return replace(former, fetched_at=now, tried_at=now, error=None, failures=0)
    if not fetched.text.strip():
        raise FetchError("the page holds no text")
    return Record(
        text=fetched.text,
        fetched_at=now,
        tried_at=now,
        etag=fetched.etag,
        last_modified=fetched.last_modified,
        size=len(fetched.text.encode()),
    )


def _key(url: str) -> str:
    return f"link:{hashlib.sha256(url.encode()).hexdigest()}"
