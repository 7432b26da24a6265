"""Counts finished receipts in the background; of several workers or replicas, one does it at a time."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gateway.analytics.facts import FactReader
from gateway.analytics.sheets import SheetRows, TallySheet, read_sheets
from gateway.analytics.tallies import FindPrice
from gateway.domain.lru import HitCounter
from gateway.domain.receipt import Receipt
from gateway.domain.statistics import CACHES, Bucket, Span, StatisticsLimits, Tallies, Tally, UncountedBatch
from gateway.errors import StoreError
from gateway.settings import AnalyticsSettings
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore
from gateway.stores.statistics import StatisticsStore

LEASE_KEY = "lease:statistics"
INTERVAL_SECONDS = 5.0  # what is counted together costs less
BATCH = 1000  # their memory is not given back: more would cost megabytes
PRUNE_SECONDS = 600.0
DAY_SECONDS = 86_400.0
HOURS_KEPT = 48 * 3600.0  # how long hours are told apart
QUERY_EMBEDDINGS = "query_embeddings"

log = logging.getLogger(__name__)

Lookups = Mapping[str, HitCounter]  # by workspace, since the process began


class StatisticsCounter(msgspec.Struct):
    """Brings the figures up to date."""

    store: StatisticsStore
    settings: AnalyticsSettings
    find_price: FindPrice = lambda model: None
    get_lookups: Callable[[], Lookups] = dict
    _reader: FactReader = msgspec.field(default_factory=FactReader)
    _told: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)  # lookups that were added, by workspace
    _pruned: float = 0.0

    async def run(self, ephemeral: EphemeralStore) -> None:
        """Count every few seconds until cancelled; a store that fails is tried again."""
        lease = Lease(ephemeral, LEASE_KEY, secrets.token_hex(8), 4 * INTERVAL_SECONDS)
        while True:
            try:
                await self.add_lookups()
                if await lease.acquire():
                    await self.count()
                    await self.prune()
            except StoreError as error:
                log.warning("receipts are not counted for now: %s", error)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def count(self) -> int:
        """Count everything that waits; returns how many receipts that were, besides those on sheets."""
        total = 0
        while batch := await self.store.read_uncounted(BATCH):
            tallies = await asyncio.to_thread(self._tally, batch)
            try:
                done = await self.store.add(tallies, batch, time.time())
            except StoreError:
                raise
            except Exception as error:  # without an end, the same batch would be read again for ever
                log.error("%d receipts are not counted: %r", len(batch.receipts), error)
                done = await self.store.add({}, batch, time.time())
            if not done:
                break  # another process counts
            total += len(batch.receipts)
        return total

    async def prune(self) -> None:
        """Delete old figures now and then."""
        now = time.time()
        if now - self._pruned >= PRUNE_SECONDS:
            oldest: dict[int, float] = {Span.HOUR: now - HOURS_KEPT, Span.DAY: now - self.settings.days * DAY_SECONDS}
            await self.store.prune(StatisticsLimits(oldest, self.settings.max_rows))
            self._pruned = now

    async def add_lookups(self) -> None:
        """Add what this process has looked up in its own caches since the last time."""
        now, told = time.time(), {}
        tallies: dict[Bucket, dict[str, Tally]] = {}
        for workspace, lookups in list(self.get_lookups().items()):
            known = self._told.get(workspace, (0, 0))
            counts = (lookups.hits, lookups.misses)
            if counts != known:
                told[workspace] = counts
                for span in (Span.DAY, Span.HOUR):
                    tally = Tally([counts[0] - known[0], counts[1] - known[1]], [])
                    tallies[Bucket(workspace, CACHES.name, span, span.find_start(now))] = {QUERY_EMBEDDINGS: tally}
        if tallies and await self.store.add(tallies, UncountedBatch(), now):
            self._told |= told

    def _tally(self, batch: UncountedBatch) -> Tallies:
        rows = read_sheets(batch.sheets)
        try:
            rows.merge(self._add_up(batch.receipts))
        except Exception:  # one by one, to lose none but those that cannot be counted
            rows.merge(self._add_up([receipt for receipt in batch.receipts if self._is_countable(receipt)]))
        return rows.spread()

    def _add_up(self, receipts: Sequence[Receipt]) -> SheetRows:
        sheet = TallySheet(self.find_price, self._reader)
        for receipt in receipts:
            sheet.add(receipt)
        return sheet.finish()

    def _is_countable(self, receipt: Receipt) -> bool:
        try:
            self._add_up([receipt])
        except Exception as error:
            log.error("the receipt %s is not counted: %r", receipt.id, error)
            return False
        return True
