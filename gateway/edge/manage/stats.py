"""`/stats`: how the context of a workspace is used, what it costs, and what could be better."""

import time
from collections.abc import Iterator
from functools import partial

import msgspec
from pydantic import Field

from gateway.analytics.reports import (
    AGENT,
    MODEL,
    BucketName,
    ExchangeFilter,
    PageChoice,
    Period,
    Reports,
    ResourceFilter,
    SortName,
)
from gateway.control.advice import build_advisor
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.paging import Paging, QueryParameters, build_page, paginate
from gateway.edge.manage.routes import ApiRoute
from gateway.edge.manage.stats_views import (
    CacheView,
    GroupStatsPage,
    QualityView,
    ResourceSeries,
    ResourceStatsPage,
    StatsView,
    SuggestionPage,
)
from gateway.policies.repository import PolicyRepository
from gateway.policies.shapes import Moment

TAG = "stats"
NAME = 512  # characters of a name to filter by
SESSIONS = "Count different sessions, too, which takes longer."
PERIOD_END = "Until this time (exclusive); default: now. Whole buckets are counted."


class PeriodQuery(QueryParameters):
    """The time that is asked about."""

    begin: Moment | None = Field(None, alias="from", description="From this time on; default: 30 days, or 24 hours.")
    end: Moment | None = Field(None, alias="to", description=PERIOD_END)

    def choose(self, bucket: BucketName = "day") -> Period:
        begin, end = (None if one is None else one.timestamp() for one in (self.begin, self.end))
        return Period.choose(time.time(), begin, end, bucket)


class SeriesQuery(PeriodQuery):
    """The time that is asked about, and how long a point lasts."""

    bucket: BucketName = Field("day", description="Hours are kept for two days.")


class ExchangeQuery(SeriesQuery):
    """Which exchanges are counted."""

    agent: str | None = Field(None, max_length=NAME, description="Only this agent; empty: requests without one.")
    model: str | None = Field(None, max_length=NAME, description="Only this model.")
    placement: str | None = Field(None, max_length=NAME, description="Only this placement.")

    def build_filter(self) -> ExchangeFilter:
        return ExchangeFilter(self.agent, self.model, self.placement)


class StatsQuery(ExchangeQuery):
    """Which exchanges are counted, and whether sessions are."""

    sessions: bool = Field(False, description=SESSIONS)


class NameSeriesQuery(SeriesQuery):
    """Which resource or context is asked about."""

    name: str = Field(max_length=NAME, description="The id of a resource (`context/id`) or the alias of a context.")


class PeriodPaging(Paging, PeriodQuery):
    """The time that is asked about, and which page of the list to return."""


class ContextStatsQuery(PeriodPaging):
    """Which page of the list to return, and whether sessions are counted."""

    sessions: bool = Field(False, description=SESSIONS)


class ResourceStatsQuery(ContextStatsQuery):
    """Which resources are counted."""

    context: str | None = Field(None, max_length=NAME, description="Only resources of this context.")
    resource: str | None = Field(None, max_length=NAME, description="Only this resource.")
    agent: str | None = Field(None, max_length=NAME, description="Only what requests of this agent used.")
    sort: SortName = Field("injected", description="The highest first.")


class StatsRoutes(msgspec.Struct, frozen=True):
    """The figures of the caller's own workspace. They name no user, no session and no text."""

    reports: Reports
    policies: PolicyRepository
    default_budget: int

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, method="GET", role=Role.EDITOR, tag=TAG)
        yield route(
            path="/stats",
            handler=self.summarize,
            summary="Count requests over time",
            query=StatsQuery,
            responses={200: StatsView},
        )
        yield route(
            path="/stats/resources",
            handler=self.list_resources,
            summary="List how resources are used",
            query=ResourceStatsQuery,
            responses={200: ResourceStatsPage},
        )
        yield route(
            path="/stats/contexts",
            handler=self.list_contexts,
            summary="List how contexts are used",
            query=ContextStatsQuery,
            responses={200: ResourceStatsPage},
        )
        yield route(
            path="/stats/series",
            handler=self.trace,
            summary="Show the use of a resource or a context over time",
            query=NameSeriesQuery,
            responses={200: ResourceSeries},
        )
        for path, part in (("/stats/agents", AGENT), ("/stats/models", MODEL)):
            yield route(
                path=path,
                handler=partial(self.group, part),
                summary=f"Count requests by {path[7:-1]}",
                query=PeriodPaging,
                responses={200: GroupStatsPage},
            )
        yield route(
            path="/stats/quality",
            handler=self.assess,
            summary="Show how well context was chosen over time",
            query=ExchangeQuery,
            responses={200: QualityView},
        )
        yield route(
            path="/stats/cache",
            handler=self.describe_caches,
            summary="Show cache hit rates",
            query=PeriodQuery,
            responses={200: CacheView},
        )
        yield route(
            path="/stats/suggestions",
            handler=self.suggest,
            summary="List what the figures suggest to change",
            query=PeriodPaging,
            responses={200: SuggestionPage},
        )

    async def summarize(self, call: ApiCall[StatsQuery, None]) -> ApiReply:
        query = call.query
        period, wanted = query.choose(query.bucket), query.build_filter()
        return ApiReply(await self.reports.summarize(call.workspace, period, wanted, query.sessions))

    async def list_resources(self, call: ApiCall[ResourceStatsQuery, None]) -> ApiReply:
        query = call.query
        wanted = ResourceFilter(query.context, query.resource, query.agent)
        part = PageChoice(query.sort, query.skip, query.take, query.sessions)
        page = await self.reports.list_resources(call.workspace, query.choose(), wanted, part)
        return ApiReply(build_page(page.items, page.total))

    async def list_contexts(self, call: ApiCall[ContextStatsQuery, None]) -> ApiReply:
        query = call.query
        part = PageChoice(skip=query.skip, take=query.take, sessions=query.sessions)
        page = await self.reports.list_contexts(call.workspace, query.choose(), part)
        return ApiReply(build_page(page.items, page.total))

    async def trace(self, call: ApiCall[NameSeriesQuery, None]) -> ApiReply:
        query = call.query
        return ApiReply(await self.reports.trace_resource(call.workspace, query.choose(query.bucket), query.name))

    async def group(self, part: int, call: ApiCall[PeriodPaging, None]) -> ApiReply:
        found = await self.reports.group(call.workspace, call.query.choose(), part)
        return ApiReply(paginate(found, call.query, lambda one: one))

    async def assess(self, call: ApiCall[ExchangeQuery, None]) -> ApiReply:
        query = call.query
        return ApiReply(await self.reports.assess(call.workspace, query.choose(query.bucket), query.build_filter()))

    async def describe_caches(self, call: ApiCall[PeriodQuery, None]) -> ApiReply:
        return ApiReply(await self.reports.describe_caches(call.workspace, call.query.choose()))

    async def suggest(self, call: ApiCall[PeriodPaging, None]) -> ApiReply:
        advisor = build_advisor(self.reports, self.policies, call.workspace, self.default_budget)
        found = await advisor.suggest(call.workspace, call.query.choose())
        return ApiReply(paginate(found, call.query, lambda one: one))
