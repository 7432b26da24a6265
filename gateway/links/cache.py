"""The last good copy of every linked page, refreshed in the background and never during a chat.

Of all replicas and workers that share a store, one fetches a page when it is due; the others adopt its copy.
"""

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

import msgspec

from gateway.domain.material import LinkMaterial
from gateway.errors import StoreError, WorkspaceBusy
from gateway.extraction.extractor import Extractor
from gateway.extraction.formats import DocumentFormat
from gateway.fair_queue import FairQueue
from gateway.links.announcements import LinkAnnouncements
from gateway.links.guard import LinkGuard
from gateway.links.page import FetchedPage, FetchError
from gateway.links.record import (
    LinkCopy,
    LinkRecord,
    LinkSchedule,
    LinkStatus,
    compute_due_time,
    compute_interval_factor,
    compute_replica_delay,
    hash_to_fraction,
    make_store_key,
)
from gateway.queue_bounds import QueueBounds
from gateway.settings import DocumentSettings, LinkSettings
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore

CONCURRENCY = 4  # fetches of one workspace at once
BOUNDS = QueueBounds(places=2 * CONCURRENCY, each=CONCURRENCY, waiting=16)
MOST_RUNNING = 64  # fetches that run or wait for a place, of all workspaces
# Stored copies that are read in one call, as long as they are small: large pages would exceed its timeout.
READ_AT_ONCE, SMALL_BYTES = 16, 64 * 1024
LEASE_KEY = "lease:links"

Fetch = Callable[[str, str | None, str | None, str], Awaitable[FetchedPage]]  # url, etag, last_modified, workspace
NOBODY: Mapping[str, Collection[str]] = MappingProxyType({})

log = logging.getLogger(__name__)


class LinkTimings(msgspec.Struct, frozen=True):
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
        self._schedules: dict[str, LinkSchedule] = {}
        self._users: dict[str, list[str]] = {}  # workspace → its links; the first of them is looked at first
        self._running: dict[str, str] = {}  # url → workspace: what `run` is fetching
        self._changed: set[str] = set()  # urls with a text of which nobody has been told yet
        self._unread: set[str] = set()  # tracked, but still to be read from the store
        self._unstored: set[str] = set()  # refreshed here, but not yet written to the store
        self._isolated_since: float | None = None  # since when the store cannot be reached
        self._attempts: dict[str, asyncio.Future[bool]] = {}
        self._slots = FairQueue(BOUNDS)
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

    def track(self, links: Iterable[LinkMaterial], users: Mapping[str, Collection[str]] = NOBODY) -> None:
        """Keep these links fresh from now on, and no others; called on the event loop.

        `users` names the workspaces of a link: they take turns. "" stands for the files, which all share.
        """
        intervals: dict[str, float] = {}
        for link in links:
            interval = link.interval or self._limits.interval
            intervals[link.url] = min(interval, intervals.get(link.url, interval))
        self._unread = {url for url in intervals if url in self._unread or url not in self._records}
        self._records = {url: record for url, record in self._records.items() if url in intervals}
        self._unstored &= intervals.keys()
        self._intervals = intervals
        self._schedules = {url: self._schedules.get(url) or self._make_schedule(url) for url in intervals}
        self._users = {}
        for url in intervals:
            for workspace in users.get(url, ("",)):
                self._users.setdefault(workspace, []).append(url)
        self._wake.set()

    async def load(self, urls: Iterable[str]) -> None:
        """Read the stored copies; if the store is down, the pages are fetched again later."""
        try:
            if not self._announcements.has_started:
                await self._announcements.read_changed_keys()  # first, so that no later change is missed
            await self._read_stored([url for url in urls if url not in self._records])
        except StoreError as error:
            log.warning("copies of links could not be loaded: %s", error)

    async def run(self, on_change: Callable[[frozenset[str]], Awaitable[None]]) -> None:
        """Refresh what is due until cancelled; `on_change`, which must not raise, hears of the URLs with a new text.

        A fetch that takes long delays no other: whenever one ends, the next is started.
        """
        async with asyncio.TaskGroup() as fetches:
            while True:
                self._wake.clear()
                self._changed |= await self._adopt_changes()
                for url, workspace in (await self._claim_due()).items():
                    self._running[url] = workspace
                    fetches.create_task(self._refresh_due(url, workspace))
                if self._changed:
                    changed, self._changed = frozenset(self._changed), set()
                    await on_change(changed)
                await self._sleep()

    async def refresh(self, url: str, workspace: str = "") -> bool:
        """Fetch the page now; whether its text is new. A failure keeps the present copy and is recorded in it.

        Raises WorkspaceBusy if too many fetches of the workspace are waiting.
        """
        if (running := self._attempts.get(url)) is not None:
            return await asyncio.shield(running)
        attempt = self._attempts[url] = asyncio.get_running_loop().create_future()
        changed = False
        try:
            async with self._slots.hold(workspace):
                changed = await self._attempt(url, workspace)
            return changed
        finally:
            del self._attempts[url]
            attempt.set_result(changed)

    async def _refresh_due(self, url: str, workspace: str) -> None:
        try:
            if await self.refresh(url, workspace):
                self._changed.add(url)
        except WorkspaceBusy:
            log.info("links of workspace %r wait: too many of them are being fetched", workspace)
        finally:
            del self._running[url]
            self._wake.set()

    async def _attempt(self, url: str, workspace: str) -> bool:
        previous = self._records.get(url, LinkRecord())
        # Whatever a page makes a parser raise is recorded on its link; the others are refreshed nevertheless.
        fetching = self._fetch(url, previous.etag, previous.last_modified, workspace)
        (page,) = await asyncio.gather(fetching, return_exceptions=True)
        try:
            record = previous.apply_success(unwrap_page(page), self._clock())
        except ValueError as error:
            log.warning("link %s was not refreshed: %s", url.partition("?")[0], error)
            record = previous.apply_failure(error, self._clock())
        self._records[url] = record
        await self._save(url, record)
        return record.text != previous.text

    async def _save(self, url: str, record: LinkRecord) -> None:
        try:
            await self._store.put(make_store_key(url), msgspec.json.encode(record))
            await self._announcements.announce(make_store_key(url))
            self._unstored.discard(url)
        except StoreError as error:
            self._unstored.add(url)
            log.warning("the copy of a link could not be stored: %s", error)

    async def _adopt_changes(self) -> set[str]:
        """Read what other replicas have fetched; the URLs whose text is new."""
        if not self._intervals:
            return set()
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
            return set()
        self._isolated_since = None
        return changed

    async def _read_stored(self, urls: Sequence[str]) -> set[str]:
        """Use the stored copies of these; the URLs whose text is new. Most of those that are new have no copy yet."""
        changed: set[str] = set()
        start, count = 0, 1
        while batch := urls[start : start + count]:
            found = await self._store.get_many([make_store_key(url) for url in batch])
            self._unread.difference_update(batch)
            for url in batch:
                stored = found.get(make_store_key(url))
                if stored is not None and self._adopt(url, stored):
                    changed.add(url)
            start += count
            count = min(2 * count, READ_AT_ONCE) if sum(map(len, found.values())) <= SMALL_BYTES else 1
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

    async def _claim_due(self) -> dict[str, str]:
        """What this replica has to start fetching now, by URL, with the workspace that it is fetched for."""
        due = self._choose_due(self._clock())
        if not due and not self._running:
            return {}
        if self._isolated_since is not None:
            return due
        try:
            return due if await self._lease.acquire() else {}
        except StoreError:
            return {}

    def _choose_due(self, now: float) -> dict[str, str]:
        """Up to so many links of each workspace: a thousand slow ones of one delay nobody else's."""
        chosen: dict[str, str] = {}
        taken = Counter(self._running.values())
        for workspace, urls in self._users.items():
            for url in urls:
                if taken[workspace] >= CONCURRENCY or len(self._running) + len(chosen) >= MOST_RUNNING:
                    break
                if url not in chosen and url not in self._attempts and self._is_due(url, now):
                    chosen[url] = workspace
                    taken[workspace] += 1
        if chosen:  # who comes late in the list is not always the one for whom nothing is left
            first = next(iter(self._users))
            self._users[first] = self._users.pop(first)
        return chosen

    def _is_due(self, url: str, now: float) -> bool:
        if self._isolated_since is None:
            return self._compute_due_time(url) <= now
        # All replicas are in this situation: fetch less often, so that web servers do not notice our outage.
        return self._compute_isolated_due_time(url, self._isolated_since) <= now

    def _make_schedule(self, url: str) -> LinkSchedule:
        owner = self._owner
        return LinkSchedule(compute_interval_factor(url), hash_to_fraction(f"{owner} {url}"))

    def _compute_due_time(self, url: str) -> float:
        interval, record, schedule = self._intervals[url], self._records.get(url), self._schedules[url]
        due = compute_due_time(record, interval, schedule.factor)
        return due if record is None else due + compute_replica_delay(schedule.fraction, interval)

    def _compute_isolated_due_time(self, url: str, since: float) -> float:
        wait = self._timings.isolation * (1 + self._schedules[url].fraction)
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


def make_guarded_fetch(limits: LinkSettings, extractor: Extractor | None = None) -> Fetch:
    """A fetch within the configured limits, behind the guard."""
    guard, extractor = LinkGuard(limits.allow), extractor or Extractor(DocumentSettings())

    async def fetch(url: str, etag: str | None, last_modified: str | None, workspace: str = "") -> FetchedPage:
        # With an HTTP client that only links need. Its import takes long: the loop must not wait for it.
        client = await asyncio.to_thread(import_module, "gateway.links.fetch")

        async def extract(content: bytes, charset: str | None) -> str:
            return await extractor.extract(workspace, content, DocumentFormat.HTML, charset)

        page: FetchedPage = await client.fetch_page(
            url, guard=guard, limits=limits, etag=etag, last_modified=last_modified, extract=extract
        )
        return page

    return fetch
