"""The last good copy of every linked page, refreshed in the background and never during a chat.

Of all replicas and workers that share a store, one fetches a page when it is due; the others adopt its copy.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from gateway.domain.material import LinkMaterial
from gateway.errors import StoreError
from gateway.links.announcements import LinkAnnouncements
from gateway.links.guard import LinkGuard
from gateway.links.page import FetchedPage, FetchError
from gateway.links.record import (
    LinkCopy,
    LinkRecord,
    LinkStatus,
    compute_due_time,
    compute_interval_factor,
    compute_replica_delay,
    hash_to_fraction,
    make_store_key,
)
from gateway.settings import LinkSettings
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore

CONCURRENCY = 4
LEASE_KEY = "lease:links"

Fetch = Callable[[str, str | None, str | None], Awaitable[FetchedPage]]  # url, etag, last_modified

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LinkTimings:
    """Intervals of the refresh loop, in seconds."""

    poll: float = 1.0  # between two looks at what other replicas have fetched
    lease: float = 10.0
    isolation: float = 60.0  # how long a replica waits for an unreachable store before it fetches by itself
    longest_sleep: float = 3600.0


DEFAULT_TIMINGS = LinkTimings()


class LinkCache:
    """Copies of the pages that policies link to; everything but `run`, `refresh` and `load` answers from memory."""

    def __init__(
        self,
        store: EphemeralStore,
        limits: LinkSettings,
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.time,
        timings: LinkTimings = DEFAULT_TIMINGS,
    ) -> None:
        self._store = store
        self._limits = limits
        self._fetch = fetch or make_guarded_fetch(limits)
        self._clock = clock
        self._timings = timings
        self._owner = secrets.token_hex(8)
        self._announcements = LinkAnnouncements(store)
        self._lease = Lease(store, LEASE_KEY, self._owner, timings.lease)
        self._records: dict[str, LinkRecord] = {}
        self._intervals: dict[str, float] = {}
        self._unread: set[str] = set()  # tracked, but still to be read from the store
        self._unstored: set[str] = set()  # refreshed here, but not yet written to the store
        self._isolated_since: float | None = None  # since when the store cannot be reached
        self._attempts: dict[str, asyncio.Future[bool]] = {}
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._wake = asyncio.Event()

    def find_copy(self, url: str) -> LinkCopy | None:
        """The last good copy, however old; None if there never was one."""
        record = self._records.get(url)
        if record is None or record.text is None:
            return None
        return LinkCopy(record.text, self._compute_age(record), record.size, record.error, record.failures)

    def find_status(self, url: str) -> LinkStatus | None:
        """The state of a link; None if it is not tracked."""
        record = self._records.get(url)
        if record is None and url not in self._intervals:
            return None
        record = record or LinkRecord()
        has_copy = record.text is not None
        return LinkStatus(
            url=url,
            fetched_at=record.fetched_at if has_copy else None,
            tried_at=record.tried_at or None,
            size=record.size if has_copy else None,
            age=self._compute_age(record) if has_copy else None,
            error=record.error,
            failures=record.failures,
            due_at=(self._compute_due_time(url) or self._clock()) if url in self._intervals else None,
        )

    def track(self, links: Iterable[LinkMaterial]) -> None:
        """Keep these links fresh from now on, and no others; called on the event loop."""
        intervals: dict[str, float] = {}
        for link in links:
            interval = link.interval or self._limits.interval
            intervals[link.url] = min(interval, intervals.get(link.url, interval))
        self._unread = {url for url in intervals if url in self._unread or url not in self._records}
        self._records = {url: record for url, record in self._records.items() if url in intervals}
        self._unstored &= intervals.keys()
        self._intervals = intervals
        self._wake.set()

    async def load(self, urls: Iterable[str]) -> None:
        """Read the stored copies; if the store is down, the pages are fetched again later."""
        try:
            if not self._announcements.has_started:
                await self._announcements.read_changed_keys()  # first, so that no later change is missed
            await self._read_stored([url for url in urls if url not in self._records])
        except StoreError as error:
            log.warning("copies of links could not be loaded: %s", error)

    async def run(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Refresh what is due until cancelled; `on_change`, which must not raise, is awaited when a text is new."""
        while True:
            self._wake.clear()
            changed = await self._adopt_changes()
            due = await self._claim_due()
            if due:
                async with self._lease.keep_renewed():
                    changed |= await self._refresh_batch(due)
            if changed:
                await on_change()
            if not due:
                await self._sleep()

    async def refresh(self, url: str) -> bool:
        """Fetch the page now; whether its text is new. A failure keeps the present copy and is recorded in it."""
        if (running := self._attempts.get(url)) is not None:
            return await asyncio.shield(running)
        attempt = self._attempts[url] = asyncio.get_running_loop().create_future()
        changed = False
        try:
            async with self._slots:
                changed = await self._attempt(url)
            return changed
        finally:
            del self._attempts[url]
            attempt.set_result(changed)

    async def _attempt(self, url: str) -> bool:
        previous = self._records.get(url, LinkRecord())
        # Whatever a page makes a parser raise is recorded on its link; the others are refreshed nevertheless.
        (page,) = await asyncio.gather(self._fetch(url, previous.etag, previous.last_modified), return_exceptions=True)
        try:
            record = previous.apply_success(unwrap_page(page), self._clock())
        except ValueError as error:
            log.warning("link %s was not refreshed: %s", url.partition("?")[0], error)
            record = previous.apply_failure(error, self._clock())
        self._records[url] = record
        await self._save(url, record)
        return record.text != previous.text

    async def _refresh_batch(self, urls: Sequence[str]) -> bool:
        async with asyncio.TaskGroup() as group:
            attempts = [group.create_task(self.refresh(url)) for url in urls]
        return any(attempt.result() for attempt in attempts)

    async def _save(self, url: str, record: LinkRecord) -> None:
        try:
            await self._store.put(make_store_key(url), msgspec.json.encode(record))
            await self._announcements.announce(make_store_key(url))
            self._unstored.discard(url)
        except StoreError as error:
            self._unstored.add(url)
            log.warning("the copy of a link could not be stored: %s", error)

    async def _adopt_changes(self) -> bool:
        """Read what other replicas have fetched; whether a text is new."""
        if not self._intervals:
            return False
        try:
            keys = await self._announcements.read_changed_keys()
            if keys is None or keys:
                # Noted before they are read, so that a read that fails now is repeated.
                self._unread |= {url for url in self._intervals if keys is None or make_store_key(url) in keys}
            # A page that is being fetched right now will be newer than its stored copy.
            changed = await self._read_stored([url for url in self._unread if url not in self._attempts])
        except StoreError as error:
            if self._isolated_since is None:
                self._isolated_since = self._clock()
                log.warning("links are not shared with other replicas: %s", error)
            return False
        self._isolated_since = None
        return changed

    async def _read_stored(self, urls: Sequence[str]) -> bool:
        changed = False
        for url in urls:  # one by one: several large pages would exceed the timeout of a call
            found = await self._store.get_many([make_store_key(url)])
            self._unread.discard(url)
            stored = found.get(make_store_key(url))
            changed |= stored is not None and self._adopt(url, stored)
        return changed

    def _adopt(self, url: str, stored: bytes) -> bool:
        """Use the stored copy; whether its text is new."""
        previous = self._records.get(url, LinkRecord())
        try:
            record = msgspec.json.decode(stored, type=LinkRecord)
        except msgspec.DecodeError as error:
            log.warning("a stored copy of a link cannot be decoded: %s", error)
            return False
        # Clocks differ between replicas, so the last copy stored wins; times decide only over one that was not stored.
        if url in self._unstored and record.tried_at <= previous.tried_at:
            return False
        self._unstored.discard(url)
        self._records[url] = record
        return record.text != previous.text

    async def _claim_due(self) -> list[str]:
        """What this replica has to fetch now."""
        now = self._clock()
        due = [url for url in self._intervals if self._compute_due_time(url) <= now]
        if not due:
            return []
        if self._isolated_since is not None:
            # All replicas are in this situation: fetch less often, so that web servers do not notice our outage.
            since = self._isolated_since
            return [url for url in due if self._compute_isolated_due_time(url, since) <= now][:CONCURRENCY]
        try:
            return due[:CONCURRENCY] if await self._lease.acquire() else []
        except StoreError:
            return []

    def _compute_due_time(self, url: str) -> float:
        interval, record = self._intervals[url], self._records.get(url)
        due = compute_due_time(record, interval, compute_interval_factor(url))
        return due if record is None else due + compute_replica_delay(self._owner, url, interval)

    def _compute_isolated_due_time(self, url: str, since: float) -> float:
        wait = self._timings.isolation * (1 + hash_to_fraction(f"{self._owner} {url}"))
        return max(self._compute_due_time(url) + self._intervals[url], since + wait)

    def _compute_age(self, record: LinkRecord) -> float:
        return max(0.0, self._clock() - record.fetched_at)

    async def _sleep(self) -> None:
        now = self._clock()
        waits = [self._compute_due_time(url) - now for url in self._intervals]
        # What is due but not ours is fetched by another replica: look again after the poll interval.
        wait = min((wait for wait in waits if wait > 0), default=self._timings.longest_sleep)
        try:
            async with asyncio.timeout(min(wait, self._timings.poll) if waits else self._timings.longest_sleep):
                await self._wake.wait()
        except TimeoutError:
            return


def unwrap_page(page: FetchedPage | BaseException) -> FetchedPage:
    """The page; raises ValueError (FetchError among others) for what was raised in its place."""
    if isinstance(page, FetchedPage):
        return page
    if isinstance(page, ValueError) or not isinstance(page, Exception):
        raise page
    log.error("a page could not be read: %r", page, exc_info=page)
    raise FetchError(f"its text cannot be read: {type(page).__name__}: {page}") from page


def make_guarded_fetch(limits: LinkSettings) -> Fetch:
    """A fetch within the configured limits, behind the guard."""
    guard = LinkGuard(limits.allow)

    async def fetch(url: str, etag: str | None, last_modified: str | None) -> FetchedPage:
        from gateway.links.fetch import fetch_page  # with an HTTP client that only links need

        return await fetch_page(url, guard=guard, limits=limits, etag=etag, last_modified=last_modified)

    return fetch
