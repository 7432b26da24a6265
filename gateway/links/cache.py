"""The last good copy of every linked page, refreshed in the background and never during a chat.

Of all nodes and workers that share a store one asks for a page when it is due; the others take over its copy.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from gateway.domain.material import LinkMaterial
from gateway.errors import StoreError
from gateway.links.announcements import LinkAnnouncements
from gateway.links.fetch import FetchedPage, fetch
from gateway.links.guard import Guard
from gateway.links.record import LinkCopy, LinkRecord, LinkStatus, delay, due_at, fraction, key_of, spread
from gateway.settings import LinkSettings
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore

CONCURRENCY = 4
LONGEST_SLEEP = 3600.0
POLL_SECONDS = 1.0  # between two looks at what other nodes have fetched
LEASE = "lease:links"
LEASE_SECONDS = 10.0
ALONE_SECONDS = 60.0  # without the store, a node waits for so long before it asks by itself

Fetch = Callable[[str, str | None, str | None], Awaitable[FetchedPage]]  # url, etag, last_modified

log = logging.getLogger(__name__)


class LinkCache:
    """Copies of the pages that policies link to; everything but `run`, `refresh` and `load` answers from memory."""

    def __init__(
        self,
        store: EphemeralStore,
        limits: LinkSettings,
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._limits = limits
        self._fetch = fetch or guarded_fetch(limits)
        self._clock = clock
        self._owner = secrets.token_hex(8)
        self._news = LinkAnnouncements(store)
        self._lease = Lease(store, LEASE, self._owner, LEASE_SECONDS)
        self._records: dict[str, LinkRecord] = {}
        self._intervals: dict[str, float] = {}
        self._unread: set[str] = set()  # tracked, but to be looked for in the store
        self._unstored: set[str] = set()  # renewed here, but the store did not take it
        self._alone_since: float | None = None  # since when the store does not answer
        self._attempts: dict[str, asyncio.Future[bool]] = {}
        self._places = asyncio.Semaphore(CONCURRENCY)
        self._wake = asyncio.Event()

    def copy(self, url: str) -> LinkCopy | None:
        """The last good copy, however old; None if there never was one."""
        record = self._records.get(url)
        if record is None or record.text is None:
            return None
        return LinkCopy(record.text, self._age(record), record.size, record.error, record.failures)

    def status(self, url: str) -> LinkStatus | None:
        """How a link does; None for one that nobody keeps."""
        record = self._records.get(url)
        if record is None and url not in self._intervals:
            return None
        record = record or LinkRecord()
        held = record.text is not None
        return LinkStatus(
            url=url,
            fetched_at=record.fetched_at if held else None,
            tried_at=record.tried_at or None,
            size=record.size if held else None,
            age=self._age(record) if held else None,
            error=record.error,
            failures=record.failures,
            due_at=(self._due_at(url) or self._clock()) if url in self._intervals else None,
        )

    def track(self, links: Iterable[LinkMaterial]) -> None:
        """Keep these links fresh from now on, and no others; called on the event loop."""
        intervals: dict[str, float] = {}
        for link in links:
            wanted = link.interval or self._limits.interval
            intervals[link.url] = min(wanted, intervals.get(link.url, wanted))
        self._unread = {url for url in intervals if url in self._unread or url not in self._records}
        self._records = {url: record for url, record in self._records.items() if url in intervals}
        self._unstored &= intervals.keys()
        self._intervals = intervals
        self._wake.set()

    async def load(self, urls: Iterable[str]) -> None:
        """Take over the copies of an earlier run; without the store they are fetched anew."""
        try:
            if not self._news.begun:
                await self._news.heard()  # first, so that nothing that changes meanwhile is missed
            await self._read([url for url in urls if url not in self._records])
        except StoreError as error:
            log.warning("copies of links could not be loaded: %s", error)

    async def run(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Refresh what is due until cancelled; `on_change`, which must not raise, is awaited when a text is new."""
        while True:
            self._wake.clear()
            changed = await self._take_over()
            due = await self._mine()
            if due:
                async with self._lease.kept():
                    changed |= await self._refresh_batch(due)
            if changed:
                await on_change()
            if not due:
                await self._sleep()

    async def refresh(self, url: str) -> bool:
        """Ask for the page now; whether its text is new. A failure keeps the copy at hand and is noted in it."""
        if (running := self._attempts.get(url)) is not None:
            return await asyncio.shield(running)
        attempt = self._attempts[url] = asyncio.get_running_loop().create_future()
        changed = False
        try:
            async with self._places:
                changed = await self._attempt(url)
            return changed
        finally:
            del self._attempts[url]
            attempt.set_result(changed)

    async def _attempt(self, url: str) -> bool:
        former = self._records.get(url, LinkRecord())
        try:
            fetched = await self._fetch(url, former.etag, former.last_modified)
            record = former.succeeded(fetched, self._clock())
        except ValueError as error:  # LinkError, or what a parser makes of a hostile reply
            log.warning("link %s was not refreshed: %s", url.partition("?")[0], error)
            record = former.failed(error, self._clock())
        self._records[url] = record
        await self._keep(url, record)
        return record.text != former.text

    async def _refresh_batch(self, urls: Sequence[str]) -> bool:
        async with asyncio.TaskGroup() as group:
            attempts = [group.create_task(self.refresh(url)) for url in urls]
        return any(attempt.result() for attempt in attempts)

    async def _keep(self, url: str, record: LinkRecord) -> None:
        try:
            await self._store.put(key_of(url), msgspec.json.encode(record))
            await self._news.tell(key_of(url))
            self._unstored.discard(url)
        except StoreError as error:
            self._unstored.add(url)
            log.warning("the copy of a link could not be stored: %s", error)

    async def _take_over(self) -> bool:
        """Read what others have fetched; whether a text is new."""
        if not self._intervals:
            return False
        try:
            heard = await self._news.heard()
            if heard is None or heard:
                # Noted before it is read, so that what a failing store does not give now is asked for again.
                self._unread |= {url for url in self._intervals if heard is None or key_of(url) in heard}
            # What this node asks for at this moment is newer than what it would read.
            changed = await self._read([url for url in self._unread if url not in self._attempts])
        except StoreError as error:
            if self._alone_since is None:
                self._alone_since = self._clock()
                log.warning("links are not compared with other nodes: %s", error)
            return False
        self._alone_since = None
        return changed

    async def _read(self, urls: Sequence[str]) -> bool:
        changed = False
        for url in urls:  # one by one: several large pages would not pass within the time that a call gets
            found = await self._store.get_many([key_of(url)])
            self._unread.discard(url)
            changed |= self._taken(url, found.get(key_of(url)))
        return changed

    def _taken(self, url: str, stored: bytes | None) -> bool:
        former = self._records.get(url, LinkRecord())
        try:
            record = None if stored is None else msgspec.json.decode(stored, type=LinkRecord)
        except msgspec.DecodeError as error:
            log.warning("a stored copy of a link is not readable: %s", error)
            return False
        if record is None:
            return False
        # Clocks differ between nodes, so the last that was stored counts; only what could not be stored is compared.
        if url in self._unstored and record.tried_at <= former.tried_at:
            return False
        self._unstored.discard(url)
        self._records[url] = record
        return record.text != former.text

    async def _mine(self) -> list[str]:
        """What this node has to ask for now."""
        now = self._clock()
        due = [url for url in self._intervals if self._due_at(url) <= now]
        if not due:
            return []
        if self._alone_since is not None:
            # Everybody is in this position: less often than usual, so that servers do not notice an outage of ours.
            return [url for url in due if self._alone_at(url, self._alone_since) <= now][:CONCURRENCY]
        try:
            return due[:CONCURRENCY] if await self._lease.taken() else []
        except StoreError:
            return []

    def _due_at(self, url: str) -> float:
        interval, record = self._intervals[url], self._records.get(url)
        moment = due_at(record, interval, spread(url))
        return moment if record is None else moment + delay(self._owner, url, interval)

    def _alone_at(self, url: str, since: float) -> float:
        wait = ALONE_SECONDS * (1 + fraction(f"{self._owner} {url}"))
        return max(self._due_at(url) + self._intervals[url], since + wait)

    def _age(self, record: LinkRecord) -> float:
        return max(0.0, self._clock() - record.fetched_at)

    async def _sleep(self) -> None:
        now = self._clock()
        waits = [self._due_at(url) - now for url in self._intervals]
        # What is due and not ours is somebody else's: look again as often as for news.
        wait = min((wait for wait in waits if wait > 0), default=LONGEST_SLEEP)
        try:
            async with asyncio.timeout(min(wait, POLL_SECONDS) if waits else LONGEST_SLEEP):
                await self._wake.wait()
        except TimeoutError:
            return


def guarded_fetch(limits: LinkSettings) -> Fetch:
    """Fetching under the configured limits, with the guard in front."""
    guard = Guard(limits.allow)

    async def get(url: str, etag: str | None, last_modified: str | None) -> FetchedPage:
        return await fetch(url, guard=guard, limits=limits, etag=etag, last_modified=last_modified)

    return get
