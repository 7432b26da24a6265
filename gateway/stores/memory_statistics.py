"""Figures in memory: for tests, and for one process that may lose them at a restart."""

from gateway.domain.statistics import (
    Bucket,
    KeyChoice,
    Span,
    StatisticsLimits,
    StatisticsRow,
    Tallies,
    UncountedBatch,
    is_chosen,
)
from gateway.stores.memory_receipts import MemoryReceiptStore
from gateway.stores.statistics import BucketState, StoredRow, add_up, choose_surplus, split_sketches


class MemoryStatisticsStore:
    """A StatisticsStore on the receipts of one process."""

    def __init__(self, receipts: MemoryReceiptStore, *, enabled: bool = True) -> None:
        self._receipts = receipts
        self._rows: dict[Bucket, dict[str, StoredRow]] = {}
        self._touched: dict[Bucket, dict[str, float]] = {}  # of the buckets that never end
        if enabled and receipts.uncounted is None:
            receipts.uncounted = {}

    async def read_uncounted(self, take: int) -> UncountedBatch:
        waiting = list((self._receipts.uncounted or {}).values())[:take]
        return UncountedBatch(waiting, [one.id for one in waiting])

    async def add(self, tallies: Tallies, counted: UncountedBatch, now: float) -> bool:
        waiting = self._receipts.uncounted or {}
        if not all(mark in waiting for mark in counted.marks):
            return False
        for mark in counted.marks:
            del waiting[str(mark)]
        for bucket, added in tallies.items():
            rows = self._rows.setdefault(bucket, {})
            changed = add_up(bucket, added, BucketState(rows, len(rows)))
            rows |= changed
            if bucket.span == Span.EVER:
                self._touched.setdefault(bucket, {}).update(dict.fromkeys(changed, now))
        return True

    async def read(
        self, bucket: Bucket, end: int, keys: KeyChoice = None, sketches: bool = False
    ) -> list[StatisticsRow]:
        wanted = sorted(
            one for one in self._rows if one[:3] == bucket[:3] and (one == bucket or bucket.start <= one.start < end)
        )
        return [
            StatisticsRow(one.start, key, row.counters, split_sketches(row.sketches) if sketches else ())
            for one in wanted
            for key, row in sorted(self._rows[one].items())
            if is_chosen(key, keys)
        ]

    async def prune(self, limits: StatisticsLimits) -> int:
        before = sum(map(len, self._rows.values()))
        for workspace in {bucket.workspace for bucket in self._rows}:
            own = [(one, len(rows)) for one, rows in self._rows.items() if one.workspace == workspace]
            for bucket in choose_surplus(own, limits):
                del self._rows[bucket]
        for bucket, touched in self._touched.items():
            for key in [key for key, at in touched.items() if at < limits.oldest.get(Span.DAY, 0)]:
                del touched[key], self._rows[bucket][key]
        return before - sum(map(len, self._rows.values()))

    async def close(self) -> None:
        return None
