"""What the figures need from a store, and how rows are added up on every engine."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from gateway.domain.sketch import extend_sketch
from gateway.domain.statistics import (
    OTHER,
    SERIES_BY_NAME,
    Bucket,
    KeyChoice,
    Series,
    Span,
    StatisticsLimits,
    StatisticsRow,
    Tallies,
    Tally,
    UncountedBatch,
    add_tally,
)

MAX_COUNT = 2**63 - 1


class StatisticsStore(Protocol):
    """Figures about receipts. Every method raises StoreError on failure.

    A receipt waits to be counted from the moment it is finished, in the same step; several processes may count.
    """

    async def read_uncounted(self, take: int) -> UncountedBatch:
        """Some receipts that are not counted yet, the oldest ones first."""
        ...

    async def add(self, tallies: Tallies, counted: UncountedBatch, now: float) -> bool:
        """Add to the rows and mark the batch as counted, both or neither; False: another process has counted it.

        A bucket that has as many keys as its series allows gets no further ones: what they bring goes to OTHER.
        """
        ...

    async def read(
        self, bucket: Bucket, end: int, keys: KeyChoice = None, sketches: bool = False
    ) -> list[StatisticsRow]:
        """The rows of all buckets from `bucket` on that begin before `end`, by start and key."""
        ...

    async def prune(self, limits: StatisticsLimits) -> int:
        """Delete what is older than the limits say, and a workspace's oldest while it has too many rows."""
        ...

    async def close(self) -> None:
        """Release files, threads and connections; the store is not used afterwards."""
        ...


class StoredRow(NamedTuple):
    """The values of a row."""

    counters: bytes
    sketches: bytes  # each with its length before it, in two bytes


class BucketState(NamedTuple):
    """What a store has of a bucket before something is added: the rows in question, and how many there are in all."""

    rows: Mapping[str, StoredRow]
    size: int


def list_keys(added: Iterable[str]) -> list[str]:
    """The rows that have to be read before a tally is added."""
    return [*added, OTHER]


def add_up(bucket: Bucket, added: Mapping[str, Tally], state: BucketState) -> dict[str, StoredRow]:
    """The rows that change, with their new values."""
    series = SERIES_BY_NAME[bucket.series]
    room = series.max_keys - state.size
    sums: dict[str, Tally] = {}
    for key, tally in added.items():
        if key not in state.rows and key != OTHER:
            # Names that nobody answers to get half of the places at most.
            if room <= (0 if tally.established else series.max_keys // 2):
                key = OTHER
            else:
                room -= 1
        if key in sums:
            add_tally(bucket.series, sums[key], tally)
        else:
            sums[key] = Tally(list(tally.counters), [set(one) for one in tally.sketches])
    return {key: _merge(series, bucket.span, tally, state.rows.get(key)) for key, tally in sums.items()}


def _merge(series: Series, span: int, tally: Tally, stored: StoredRow | None) -> StoredRow:
    counters, sketches = tally.counters, b""
    if stored is not None:
        former = Tally(list(series.layout.unpack(stored.counters)), [])
        add_tally(series.name, former, tally)
        counters = former.counters
    if span == Span.DAY:
        known = split_sketches(stored.sketches if stored is not None else b"") or (b"",) * len(series.sketches)
        sketches = join_sketches(map(extend_sketch, known, tally.sketches))
    return StoredRow(series.layout.pack(*(min(one, MAX_COUNT) for one in counters)), sketches)


def join_sketches(sketches: Iterable[bytes]) -> bytes:
    return b"".join(len(one).to_bytes(2) + one for one in sketches)


def split_sketches(joined: bytes) -> tuple[bytes, ...]:
    """The sketches of a row, in the order of its series."""
    found, at = [], 0
    while at < len(joined):
        end = at + 2 + int.from_bytes(joined[at : at + 2])
        found.append(joined[at + 2 : end])
        at = end
    return tuple(found)


def choose_surplus(buckets: Sequence[tuple[Bucket, int]], limits: StatisticsLimits) -> list[Bucket]:
    """Which buckets of one workspace go, given all of them with their rows."""
    gone = [one for one, _ in buckets if one.span in limits.oldest and one.start < limits.oldest[one.span]]
    left = sorted(
        ((one, rows) for one, rows in buckets if one not in set(gone) and one.span != Span.EVER),
        key=lambda kept: kept[0].start,
    )
    total = sum(rows for one, rows in buckets if one not in set(gone))
    for one, rows in left:
        if total <= limits.max_rows:
            break
        gone.append(one)
        total -= rows
    return gone
