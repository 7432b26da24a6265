"""Answers to questions about the figures of one workspace. Every answer reads rows of buckets, never a receipt."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from gateway.analytics.counting import QUERY_EMBEDDINGS
from gateway.analytics.figures import (
    UsageFigures,
    add_figures,
    count_sessions,
    count_sessions_by_name,
    divide,
    format_second,
    render_exchanges,
    render_quality,
    render_resource,
    split_key,
    sum_in_thread,
)
from gateway.domain.statistics import (
    AGENT_RESOURCES,
    CACHES,
    EXCHANGES,
    RESOURCES,
    SEPARATOR,
    Bucket,
    KeyChoice,
    KeyPrefix,
    Series,
    Span,
    StatisticsRow,
)
from gateway.stores.statistics import StatisticsStore

DEFAULT_DAYS, DEFAULT_HOURS = 30, 24
MOST_BUCKETS = 400  # of one answer
LATEST = 253_370_764_800  # 9999-01-01, after which no time can be written
AGENT, MODEL, PLACEMENT = range(3)  # the parts of the key of exchanges

BucketName = Literal["day", "hour"]
SortName = Literal["injected", "fetched", "tokens", "cost", "missed", "over_budget", "truncated", "shown"]


class Period(msgspec.Struct, frozen=True):
    """Whole buckets of time."""

    span: Span
    begin: int
    end: int  # exclusive

    @classmethod
    def choose(cls, now: float, begin: float | None, end: float | None, bucket: BucketName = "day") -> "Period":
        """The buckets that the times touch; by default the last 30 days, or 24 hours."""
        span = Span.DAY if bucket == "day" else Span.HOUR
        last = min(span.find_start((end if end is not None else now) - (end is not None) * 1e-6) + span, LATEST)
        length = DEFAULT_DAYS if span is Span.DAY else DEFAULT_HOURS
        first = span.find_start(begin) if begin is not None else last - length * span
        return cls(span, max(first, last - MOST_BUCKETS * span, 0), max(last, 0))

    def describe(self) -> dict[str, Any]:
        return {
            "from": format_second(self.begin),
            "to": format_second(self.end),
            "bucket": "day" if self.span is Span.DAY else "hour",
        }


class ExchangeFilter(msgspec.Struct, frozen=True):
    """Which exchanges are wanted; None: any, "": those without."""

    agent: str | None = None
    model: str | None = None
    placement: str | None = None

    def accepts(self, row: StatisticsRow) -> bool:
        wanted = (self.agent, self.model, self.placement)
        return all(one in (None, part) for one, part in zip(wanted, split_key(row), strict=True))


ANY_EXCHANGE = ExchangeFilter()


class ResourceFilter(msgspec.Struct, frozen=True):
    """Which resources are wanted."""

    context: str | None = None
    resource: str | None = None
    agent: str | None = None

    def accepts(self, name: str) -> bool:
        if self.resource is not None and name != self.resource:
            return False
        return "/" in name and (self.context is None or name.startswith(f"{self.context}/"))


class PageChoice(msgspec.Struct, frozen=True):
    """Which part of a list is wanted, in which order, and whether sessions are counted, which takes longer."""

    sort: SortName = "injected"
    skip: int = 0
    take: int = 100
    sessions: bool = False

    def cut(self, ranked: Sequence[tuple[str, UsageFigures]]) -> dict[str, UsageFigures]:
        return dict(ranked[self.skip : self.skip + self.take])


class UsagePage(msgspec.Struct, frozen=True):
    """Some resources, and how many there are."""

    items: list[dict[str, Any]]
    total: int


class Reports(msgspec.Struct, frozen=True):
    """What can be asked about a workspace."""

    store: StatisticsStore

    async def summarize(
        self, workspace: str, period: Period, wanted: ExchangeFilter, sessions: bool = False
    ) -> dict[str, Any]:
        """Totals, and a point for each bucket; `sessions`: count these too, which takes longer."""
        counts = sessions and period.span is Span.DAY
        rows = await self._read_exchanges(workspace, period, wanted, sketches=counts)
        points = await sum_in_thread(EXCHANGES, rows, lambda row: row.start)
        total = add_figures(EXCHANGES, points.values())
        seen = await asyncio.to_thread(count_sessions, rows, 0) if counts else None
        return {
            **period.describe(),
            "totals": {**render_exchanges(total), "sessions": seen},
            "points": [{"start": format_second(start), **render_exchanges(one)} for start, one in points.items()],
        }

    async def group(self, workspace: str, period: Period, part: int) -> list[dict[str, Any]]:
        """The exchanges of each agent, model or placement, the most used first."""
        rows = await self._read_exchanges(workspace, period, ANY_EXCHANGE)
        groups = await sum_in_thread(EXCHANGES, rows, lambda row: split_key(row)[part])
        ranked = sorted(groups.items(), key=lambda one: (-one[1]["requests"], one[0]))
        return [{"name": name or None, **render_exchanges(figures)} for name, figures in ranked]

    async def assess(self, workspace: str, period: Period, wanted: ExchangeFilter) -> dict[str, Any]:
        """How well context was chosen, in all and for each bucket."""
        rows = await self._read_exchanges(workspace, period, wanted)
        points = await sum_in_thread(EXCHANGES, rows, lambda row: row.start)
        total = add_figures(EXCHANGES, points.values())
        return {
            **period.describe(),
            "totals": render_quality(total),
            "points": [{"start": format_second(start), **render_quality(one)} for start, one in points.items()],
        }

    async def list_resources(
        self, workspace: str, period: Period, wanted: ResourceFilter, part: PageChoice
    ) -> UsagePage:
        """Resources by a counter, the highest first."""
        found = await self.sum_resources(workspace, period, wanted.agent)
        ranked = sorted(
            ((name, figures) for name, figures in found.items() if wanted.accepts(name)),
            key=lambda one: (-one[1][part.sort], one[0]),
        )
        sessions = part.sessions and wanted.agent is None
        return UsagePage(await self._describe(workspace, period, part.cut(ranked), sessions), len(ranked))

    async def list_contexts(self, workspace: str, period: Period, part: PageChoice) -> UsagePage:
        """Contexts by how often they applied."""
        found = await self.sum_resources(workspace, period)
        ranked = sorted(
            ((name, figures) for name, figures in found.items() if "/" not in name),
            key=lambda one: (-one[1]["applied"], one[0]),
        )
        return UsagePage(await self._describe(workspace, period, part.cut(ranked), part.sessions), len(ranked))

    async def trace_resource(self, workspace: str, period: Period, name: str) -> dict[str, Any]:
        """A point for each bucket in which a resource or a context was used."""
        rows = await self._read(workspace, RESOURCES, period, [name])
        points = await sum_in_thread(RESOURCES, rows, lambda row: row.start)
        shown = [{"start": format_second(start), **render_resource(one)} for start, one in points.items()]
        return {**period.describe(), "name": name, "points": shown}

    async def describe_caches(self, workspace: str, period: Period) -> dict[str, Any]:
        """How much of the prompts the providers had cached, and of the vectors of questions we had."""
        rows = await self._read_exchanges(workspace, period, ANY_EXCHANGE)
        groups = await sum_in_thread(EXCHANGES, rows, lambda row: tuple(split_key(row)))
        parts = {"placements": PLACEMENT, "agents": AGENT, "models": MODEL}
        lookups = await self._read(workspace, CACHES, period, [QUERY_EMBEDDINGS])
        total = add_figures(CACHES, (await sum_in_thread(CACHES, lookups, lambda row: 0)).values())
        return {
            **period.describe(),
            "prompt": {
                "totals": _render_cache(add_figures(EXCHANGES, groups.values())),
                **{name: _group_cache(groups, part) for name, part in parts.items()},
            },
            "query_embeddings": {
                "hits": total["hits"],
                "misses": total["misses"],
                "hit_share": divide(total["hits"], total["hits"] + total["misses"]),
            },
        }

    async def sum_resources(self, workspace: str, period: Period, agent: str | None = None) -> dict[str, UsageFigures]:
        """The figures of every resource and context, of all agents or of one."""
        if agent is None:
            rows = await self._read(workspace, RESOURCES, period)
            return await sum_in_thread(RESOURCES, rows, lambda row: row.key)
        days = Period(Span.DAY, Span.DAY.find_start(period.begin), period.end)
        rows = await self._read(workspace, AGENT_RESOURCES, days, KeyPrefix(agent + SEPARATOR))
        return await sum_in_thread(AGENT_RESOURCES, rows, lambda row: row.key.partition(SEPARATOR)[2])

    async def sum_agent_resources(self, workspace: str, period: Period) -> dict[str, UsageFigures]:
        """The figures of every resource of every agent, by the agent's alias and the name, with a line break."""
        rows = await self._read(workspace, AGENT_RESOURCES, period)
        return await sum_in_thread(AGENT_RESOURCES, rows, lambda row: row.key)

    async def count_sessions(self, workspace: str, period: Period, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """In how many sessions some resources or contexts applied, were injected and were fetched."""
        rows = await self._read(workspace, RESOURCES, period, names, sketches=True)
        return await asyncio.to_thread(count_sessions_by_name, RESOURCES, rows)

    async def _describe(
        self, workspace: str, period: Period, page: dict[str, UsageFigures], sessions: bool
    ) -> list[dict[str, Any]]:
        names = list(page)
        ever = await self.store.read(Bucket(workspace, RESOURCES.name, Span.EVER, 0), 1, names)
        last = await sum_in_thread(RESOURCES, ever, lambda row: row.key)
        seen = await self.count_sessions(workspace, period, names) if sessions else {}
        return [
            {"name": name, **render_resource(figures, last.get(name)), "sessions": seen.get(name)}
            for name, figures in page.items()
        ]

    async def _read_exchanges(
        self, workspace: str, period: Period, wanted: ExchangeFilter, sketches: bool = False
    ) -> list[StatisticsRow]:
        rows = await self._read(workspace, EXCHANGES, period, sketches=sketches)
        return rows if wanted == ANY_EXCHANGE else [row for row in rows if wanted.accepts(row)]

    async def _read(
        self,
        workspace: str,
        series: Series,
        period: Period,
        keys: KeyChoice = None,
        sketches: bool = False,
    ) -> list[StatisticsRow]:
        first = Bucket(workspace, series.name, period.span, period.begin)
        return await self.store.read(first, period.end, keys, sketches)


def _render_cache(figures: UsageFigures) -> dict[str, Any]:
    return {
        "requests": figures["with_usage"],
        "prompt_tokens": figures["prompt_tokens"],
        "cached_tokens": figures["cached_tokens"],
        "cached_share": figures.share("cached_tokens", "prompt_tokens"),
    }


def _group_cache(groups: Mapping[tuple[str, ...], UsageFigures], part: int) -> list[dict[str, Any]]:
    """The figures of each agent, model or placement, from those of their combinations."""
    names: dict[str, list[UsageFigures]] = {}
    for key, figures in groups.items():
        names.setdefault(key[part], []).append(figures)
    sums = {name: add_figures(EXCHANGES, every) for name, every in names.items()}
    ranked = sorted(sums.items(), key=lambda one: (-one[1]["prompt_tokens"], one[0]))
    return [{"name": name or None, **_render_cache(figures)} for name, figures in ranked]
