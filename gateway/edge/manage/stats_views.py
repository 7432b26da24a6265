"""How the figures of a workspace look in replies."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from gateway.analytics.reports import BucketName
from gateway.edge.manage.paging import Page


class SessionCount(BaseModel):
    """A number of different sessions."""

    count: int
    exact: bool = Field(description="From 64 sessions on, it is an estimate.")


class ResourceSessions(BaseModel):
    """In how many sessions something applied (contexts only), was injected and was fetched."""

    applied: SessionCount
    injected: SessionCount
    fetched: SessionCount


class ResourceFigures(BaseModel):
    """How a resource or a context was used."""

    applied: int = Field(description="Requests that the context applied to; 0 for a resource.")
    injected: int
    picked: int = Field(description="Injected because semantic search chose it.")
    pinned: int = Field(description="Injected because the session or the request named it.")
    retained: int = Field(description="Injected because it was fetched earlier in the session.")
    truncated: int
    over_budget: int = Field(description="Left out because of the budget.")
    fetched: int = Field(description="Requests in which the model fetched it.")
    missed: int = Field(description="Fetched although semantic search had left it out.")
    tokens: int
    fetched_characters: int
    cost: float = Field(description="US dollars for the injected tokens; 0 without prices.")
    measured: int = Field(description="Answers that were compared with it.")
    shown: int = Field(description="Answers that show it.")
    shown_share: float | None
    overlap: float | None = Field(description="Mean share of its distinctive phrases in those answers.")
    last_injected: str | None
    last_fetched: str | None


class ResourceStats(ResourceFigures):
    """A resource or a context in a list."""

    name: str
    sessions: ResourceSessions | None = Field(description="Null unless asked for, and with a filter by agent.")


class ResourceStatsPage(Page[ResourceStats]):
    """A page of resources or contexts."""


class ResourcePoint(ResourceFigures):
    """A bucket in which something was used."""

    start: str


class PeriodView(BaseModel):
    """The buckets that were counted."""

    begin: str = Field(serialization_alias="from")
    end: str = Field(serialization_alias="to")
    bucket: BucketName


class ResourceSeries(PeriodView):
    """The use of a resource or a context over time; buckets without any use are absent."""

    name: str
    points: list[ResourcePoint]


class StatusCounts(BaseModel):
    """Requests by how they ended."""

    ok: int
    error: int
    aborted: int
    upstream_truncated: int
    loop_limit: int


class ExchangeFigures(BaseModel):
    """Some requests in figures."""

    requests: int
    statuses: StatusCounts
    degraded: int
    injected: int = Field(description="Requests with at least one injected resource.")
    picked: int = Field(description="Requests for which semantic search chose something.")
    fetched: int = Field(description="Requests in which the model fetched something.")
    missed: int = Field(description="Requests in which it fetched what semantic search had left out.")
    over_budget: int
    context_tokens: int
    turns: int
    tools_run: int
    with_usage: int = Field(description="Requests whose upstream reported usage.")
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cached_share: float | None
    cost: float
    priced: int = Field(description="Requests with a cost.")
    mean_seconds: float | None


class ExchangeTotals(ExchangeFigures):
    """All requests of a period."""

    sessions: SessionCount | None = Field(description="Null unless asked for, and for hours.")


class ExchangePoint(ExchangeFigures):
    """The requests of a bucket."""

    start: str


class StatsView(PeriodView):
    """Requests over time; buckets without any are absent."""

    totals: ExchangeTotals
    points: list[ExchangePoint]


class GroupStats(ExchangeFigures):
    """The requests of an agent or a model."""

    name: str | None = Field(description="Null: requests without one.")


class GroupStatsPage(Page[GroupStats]):
    """A page of agents or models."""


class QualityFigures(BaseModel):
    """How well context was chosen; shares are null where there was nothing."""

    requests: int
    picked_share: float | None = Field(description="Requests for which semantic search chose something.")
    measured_picks: int = Field(description="Choices that were compared with the answer.")
    shown_share: float | None = Field(description="Those of them that the answer shows.")
    missed_share: float | None = Field(description="Requests in which the model fetched what search had left out.")
    over_budget_share: float | None
    degraded_share: float | None
    degraded_semantic_share: float | None


class QualityPoint(QualityFigures):
    """The quality of a bucket."""

    start: str


class QualityView(PeriodView):
    """Quality over time."""

    totals: QualityFigures
    points: list[QualityPoint]


class CacheFigures(BaseModel):
    """How many prompt tokens the providers had cached."""

    requests: int = Field(description="Requests whose upstream reported usage.")
    prompt_tokens: int
    cached_tokens: int
    cached_share: float | None


class NamedCacheFigures(CacheFigures):
    """The same for a placement, an agent or a model."""

    name: str | None


class PromptCacheView(BaseModel):
    """The providers' prompt caches."""

    totals: CacheFigures
    placements: list[NamedCacheFigures]
    agents: list[NamedCacheFigures]
    models: list[NamedCacheFigures]


class LookupView(BaseModel):
    """Lookups in a cache of the gateway."""

    hits: int
    misses: int
    hit_share: float | None


class CacheView(PeriodView):
    """Caches of the providers and of the gateway."""

    prompt: PromptCacheView
    query_embeddings: LookupView


class ProposedChangeView(BaseModel):
    """A call that applies a suggestion: GET the path, merge the fields into the reply and PUT it back; or DELETE it."""

    method: Literal["PUT", "DELETE"]
    path: str
    merge: dict[str, Any]
    asks: list[str] = Field(description="Fields that a person has to fill in.")
    read_only: bool = Field(description="It is defined in a file: change it there.")


class SuggestionView(BaseModel):
    """Something that could be better."""

    code: Literal["never_shown", "never_used", "fetched_often", "never_picked", "truncated_often", "over_budget_often"]
    resource: str
    reason: str
    figures: dict[str, int | str]
    change: ProposedChangeView


class SuggestionPage(Page[SuggestionView]):
    """A page of suggestions."""
