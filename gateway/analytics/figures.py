"""Rows of figures as tables of numbers, and how the numbers are shown."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.analytics.tallies import MILLIONTH, NANO
from gateway.domain.sketch import HASH_BYTES, SKETCH_HASHES, estimate_distinct
from gateway.domain.statistics import SEPARATOR, Series, StatisticsRow

Label = Callable[[StatisticsRow], Any]
Numbers = NDArray[np.int64]

FEW_ROWS = 300


class UsageFigures(msgspec.Struct, frozen=True):
    """The counters of one row, or the sum of several."""

    series: Series
    values: Numbers

    def __getitem__(self, name: str) -> int:
        return int(self.values[self.series.places[name]])

    def share(self, part: str, whole: str) -> float | None:
        """One counter as a share of another; None: there is nothing to share."""
        return divide(self[part], self[whole])


def sum_up(series: Series, rows: Sequence[StatisticsRow], label: Label) -> dict[Any, UsageFigures]:
    """The rows with the same label, added up, in the order in which labels appear."""
    if not rows:
        return {}
    table = np.frombuffer(b"".join(row.counters for row in rows), "<i8").reshape(len(rows), len(series.counters))
    places: dict[Any, int] = {}
    groups = np.fromiter((places.setdefault(label(row), len(places)) for row in rows), np.intp, len(rows))
    sums = np.zeros((len(places), len(series.counters)), np.int64)
    np.add.at(sums, groups, table)
    for place in series.maximum_places:
        peaks = np.zeros(len(places), np.int64)
        np.maximum.at(peaks, groups, table[:, place])
        sums[:, place] = peaks
    return {name: UsageFigures(series, sums[place]) for name, place in places.items()}


async def sum_in_thread(series: Series, rows: Sequence[StatisticsRow], label: Label) -> dict[Any, UsageFigures]:
    """The same without holding up the event loop for long."""
    if len(rows) < FEW_ROWS:
        return sum_up(series, rows, label)
    return await asyncio.to_thread(sum_up, series, rows, label)


def add_figures(series: Series, every: Iterable[UsageFigures]) -> UsageFigures:
    """The sum of figures, whose last uses do not matter any more."""
    return UsageFigures(series, sum((one.values for one in every), np.zeros(len(series.counters), np.int64)))


def make_empty(series: Series) -> UsageFigures:
    return UsageFigures(series, np.zeros(len(series.counters), np.int64))


def divide(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def split_key(row: StatisticsRow) -> list[str]:
    """The parts of a key; those of OTHER are all the same."""
    parts = row.key.split(SEPARATOR)
    return parts if len(parts) > 1 else [row.key] * 3


def count_sessions(rows: Sequence[StatisticsRow], place: int) -> dict[str, Any]:
    """The different sessions that some rows have seen; exact while they are few."""
    every = np.frombuffer(b"".join([row.sketches[place] for row in rows if row.sketches]), ">u8").astype(np.uint64)
    every.sort()
    first = every[np.append(True, every[1:] != every[:-1])[: len(every)]]
    merged = first[:SKETCH_HASHES].astype(">u8").tobytes()
    return {"count": estimate_distinct(merged), "exact": len(merged) < SKETCH_HASHES * HASH_BYTES}


def count_sessions_by_name(series: Series, rows: Sequence[StatisticsRow]) -> dict[str, dict[str, Any]]:
    """The sessions of each key, by the name of the sketch."""
    by_name: dict[str, list[StatisticsRow]] = {}
    for row in rows:
        by_name.setdefault(row.key, []).append(row)
    return {
        name: {what: count_sessions(own, place) for place, what in enumerate(series.sketches)}
        for name, own in by_name.items()
    }


def render_resource(figures: UsageFigures, last: UsageFigures | None = None) -> dict[str, Any]:
    """The figures of a resource or a context; `last` are those of all time."""
    names = ("applied", "injected", "picked", "pinned", "retained", "truncated", "over_budget", "fetched", "missed")
    latest = last if last is not None else figures
    return {
        **{name: figures[name] for name in (*names, "tokens", "fetched_characters")},
        "cost": to_dollars(figures["cost"]),
        "measured": figures["measured"],
        "shown": figures["shown"],
        "shown_share": figures.share("shown", "measured"),
        "overlap": divide(figures["overlap"] / MILLIONTH, figures["measured"]),
        "last_injected": format_moment(latest["last_injected"]),
        "last_fetched": format_moment(latest["last_fetched"]),
    }


def render_exchanges(figures: UsageFigures) -> dict[str, Any]:
    """The figures of some exchanges."""
    statuses = ("ok", "error", "aborted", "upstream_truncated", "loop_limit")
    names = ("degraded", "injected", "picked", "fetched", "missed", "over_budget", "context_tokens", "turns")
    usage = ("tools_run", "with_usage", "prompt_tokens", "cached_tokens", "completion_tokens")
    return {
        "requests": figures["requests"],
        "statuses": {name: figures[name] for name in statuses},
        **{name: figures[name] for name in (*names, *usage)},
        "cached_share": figures.share("cached_tokens", "prompt_tokens"),
        "cost": to_dollars(figures["cost"]),
        "priced": figures["priced"],
        "mean_seconds": divide(figures["milliseconds"] / 1000, figures["requests"]),
    }


def render_quality(figures: UsageFigures) -> dict[str, Any]:
    """How well the context was chosen."""
    return {
        "requests": figures["requests"],
        "picked_share": figures.share("picked", "requests"),
        "measured_picks": figures["measured_picks"],
        "shown_share": figures.share("shown_picks", "measured_picks"),
        "missed_share": figures.share("missed", "requests"),
        "over_budget_share": figures.share("over_budget", "requests"),
        "degraded_share": figures.share("degraded", "requests"),
        "degraded_semantic_share": figures.share("degraded_semantic", "requests"),
    }


def to_dollars(nano: int) -> float:
    return round(nano / NANO, 6)


def format_moment(milliseconds: int) -> str | None:
    return format_second(milliseconds / 1000) if milliseconds else None


def format_second(seconds: float) -> str:
    """A time in UTC to the second (RFC 3339)."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
