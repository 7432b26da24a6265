"""The figures that are kept of receipts: counters by series, bucket of time and key."""

import struct
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from operator import add
from typing import NamedTuple

import msgspec

from gateway.domain.receipt import Receipt

OTHER = "(other)"  # the key of what came when a bucket was full
SEPARATOR = "\n"  # between the parts of a key; no alias and no id contains it


class Span(IntEnum):
    """How long a bucket lasts, in seconds."""

    EVER = 0
    HOUR = 3600
    DAY = 86_400

    def find_start(self, at: float) -> int:
        """When the bucket of a moment begins (UTC)."""
        return 0 if self is Span.EVER else int(at) - int(at) % self


class Series(msgspec.Struct, frozen=True, dict=True):
    """A kind of row: the names of its counters, and how many keys a bucket may have."""

    name: str
    counters: tuple[str, ...]
    sketches: tuple[str, ...] = ()  # distinct sessions; kept per day only
    maxima: frozenset[str] = frozenset()  # counters of which the larger one is kept; others are added up
    max_keys: int = 5000

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The position of each counter."""
        return {name: place for place, name in enumerate(self.counters)}

    @cached_property
    def maximum_places(self) -> tuple[int, ...]:
        return tuple(self.places[name] for name in self.counters if name in self.maxima)

    @cached_property
    def layout(self) -> struct.Struct:
        """How the counters are stored."""
        return struct.Struct(f"<{len(self.counters)}q")


RESOURCE_COUNTERS = (
    *("applied", "injected", "picked", "pinned", "retained", "truncated", "over_budget", "fetched", "missed"),
    *("tokens", "fetched_characters", "cost", "measured", "shown", "overlap", "last_injected", "last_fetched"),
)
LAST = frozenset({"last_injected", "last_fetched"})

# Keys: the id of a resource or the alias of a context; an agent and such a name.
RESOURCES = Series("resources", RESOURCE_COUNTERS, ("applied", "injected", "fetched"), LAST)
AGENT_RESOURCES = Series("agent-resources", RESOURCE_COUNTERS, (), LAST)
# Keys: agent, model and placement, each may be empty.
EXCHANGES = Series(
    "exchanges",
    (
        *("requests", "ok", "error", "aborted", "upstream_truncated", "loop_limit", "degraded", "degraded_semantic"),
        *("injected", "picked", "fetched", "missed", "over_budget", "measured_picks", "shown_picks"),
        *("context_tokens", "turns", "tools_run", "with_usage", "prompt_tokens", "cached_tokens"),
        *("completion_tokens", "priced", "cost", "milliseconds"),
    ),
    ("sessions",),
    max_keys=500,
)
# Keys: the name of the cache.
CACHES = Series("caches", ("hits", "misses"), max_keys=10)
EVERY_SERIES = (RESOURCES, AGENT_RESOURCES, EXCHANGES, CACHES)
SERIES_BY_NAME = {series.name: series for series in EVERY_SERIES}


class Bucket(NamedTuple):
    """The rows of a workspace that belong together."""

    workspace: str
    series: str
    span: int
    start: int  # seconds since 1970


class Tally(msgspec.Struct):
    """What is added to one row."""

    counters: list[int]
    sketches: list[set[bytes]]  # hashes of sessions
    established: bool = True  # it may take any place in its bucket, not only one of the first half


Tallies = Mapping[Bucket, Mapping[str, Tally]]


def add_tally(series: str, into: Tally, other: Tally) -> None:
    """Add up two tallies of a series; sketches that one of them lacks are left out."""
    places = SERIES_BY_NAME[series].maximum_places
    sums = list(map(add, into.counters, other.counters))
    for place in places:
        sums[place] = max(into.counters[place], other.counters[place])
    into.counters = sums
    for mine, theirs in zip(into.sketches, other.sketches, strict=False):
        mine |= theirs
    into.established = into.established or other.established


class KeyPrefix(msgspec.Struct, frozen=True):
    """The keys that begin with a text."""

    text: str


KeyChoice = Collection[str] | KeyPrefix | None  # which rows are wanted; None: all


def is_chosen(key: str, keys: KeyChoice) -> bool:
    if isinstance(keys, KeyPrefix):
        return key.startswith(keys.text)
    return keys is None or key in keys


class StatisticsRow(NamedTuple):
    """A row as it is stored."""

    start: int
    key: str
    counters: bytes
    sketches: tuple[bytes, ...] = ()


class UncountedBatch(msgspec.Struct, frozen=True):
    """Finished receipts that are not part of the figures yet, oldest first, and how a store knows them.

    Of those that were added up when they were written there are sheets instead (`gateway/analytics/sheets.py`).
    """

    receipts: Sequence[Receipt] = ()
    marks: Sequence[int | str] = ()  # may be more than there are receipts: some were deleted
    sheets: Sequence[bytes] = ()
    sheet_marks: Sequence[int] = ()

    def __bool__(self) -> bool:
        return bool(self.marks or self.sheet_marks)


class StatisticsLimits(msgspec.Struct, frozen=True):
    """What is kept of the figures of each workspace."""

    oldest: Mapping[int, float] = msgspec.field(default_factory=dict)  # by span: buckets that began before go
    max_rows: int = 250_000  # of a workspace; its oldest buckets go first
