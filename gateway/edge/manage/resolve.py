"""`POST /resolve`: a dry run that shows the exact outgoing request and why each part of it is there."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from gateway.domain.principal import Principal, Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.routes import ApiRoute
from gateway.edge.manage.versions import HIGHEST
from gateway.errors import Conflict, Forbidden, InvalidRequest, ServiceUnavailable, UpstreamError
from gateway.policies.shapes import Moment
from gateway.replay.overlay import PolicyChoice
from gateway.replay.receipt_source import GivenRequest
from gateway.replay.replayer import Replayer, RequestChoice

MAX_NAMES = 200  # of versions or drafts

Version = Annotated[int, Field(ge=1, le=HIGHEST, strict=True)]


class PoliciesBody(BaseModel):
    """Which policies to use: the current ones, unless something else is said."""

    model_config = ConfigDict(extra="forbid")

    versions: dict[str, Version] = Field(
        {}, max_length=MAX_NAMES, description="Objects in one of their stored versions, by kind/alias; over `as_of`."
    )
    drafts: StrictBool | Annotated[list[str], Field(max_length=MAX_NAMES)] = Field(
        False, description="Whether to treat drafts as published; or which ones, as kind/alias. Over `versions`."
    )

    def build_choice(self, caller: Principal, as_of: datetime | None) -> PolicyChoice:
        """The policies; raises Forbidden for a caller who may only use the current ones."""
        at = as_of.timestamp() if as_of is not None else None
        choice = PolicyChoice(at, self.versions, self.drafts)
        if not choice.is_current and not caller.role.covers(Role.EDITOR):
            message = "Drafts and former versions need a key with the role editor"
            raise Forbidden(f"{message}; yours has {caller.role.value}.")
        return choice


class GivenRequestBody(PoliciesBody):
    """A request, or a part of one, and the policies to build it with."""

    context: dict[str, Any] | None = Field(None, description="Like the `context` object of a chat request.")
    request: dict[str, Any] | None = Field(None, description="A chat request, or a part of one.")
    query: str | None = Field(None, description="The user's question; it is appended to the messages of the request.")

    @property
    def given(self) -> GivenRequest:
        return GivenRequest(self.context, self.request, self.query)


class ResolveBody(GivenRequestBody):
    """The request to resolve, and with which policies."""

    as_of: Moment | None = Field(None, description="The stored policies as they were at this time.")


class ResolvedPart(BaseModel):
    """One of the things that a text is about."""

    id: str
    type: str
    name: str
    score: float


class ResolvedResource(BaseModel):
    """A resource that was considered, and the outcome."""

    id: str
    name: str
    type: str
    kind: Literal["rule", "reference", "tool"]
    server: str | None = Field(None, description="Of a tool: the resource of the MCP server that it belongs to.")
    mode: Literal["always", "semantic", "on_demand", "manual"]
    via: str
    level: str
    entity: str
    context: str
    version: int
    score: float | None
    tokens: int | None
    position: int | None
    truncated: bool
    summarized: bool = Field(False, description="Truncated: a summary by a model stands for it.")
    reason: str | None
    why: str
    breadcrumb: list[str] | None = Field(None, description="Of what a collector found: titles from the root down.")
    modified: datetime | None = Field(None, description="Of what a collector found: when it was changed.")
    source: str | None = Field(None, description="Of a passage that was looked up: where it is from.")
    parts: list[ResolvedPart] | None = Field(None, description="Of a fragment of the knowledge graph: its entities.")


class ProvidedItem(BaseModel):
    """A text that came with the request itself."""

    name: str
    characters: int


class SelectionView(BaseModel):
    """What is injected, what the tools offer, and what is left out."""

    injected: list[ResolvedResource]
    items: list[ProvidedItem] = Field(description="Texts of the request's own `items`; they are injected too.")
    catalogue: list[ResolvedResource]
    dropped: list[ResolvedResource]


class ContextSource(BaseModel):
    """A context that applies, and what it was assigned to."""

    level: str
    entity: str
    context: str


class TokenUsage(BaseModel):
    """What the injection costs."""

    total: int
    budget: int
    remaining: int
    by_category: dict[str, int]


class SectionView(BaseModel):
    """A section of what collectors found."""

    category: str
    title: str
    items: list[str] = Field(description="Ids in their order; empty: the section says that nothing was found.")
    tokens: int


class RecipeItem(BaseModel):
    """An item that a recipe brought."""

    id: str
    layer: int = Field(description="Its place in the recipe, from 0; the world comes after all layers.")
    tokens: int


class RecipeResult(BaseModel):
    """What the recipe of a task came to."""

    task: str
    items: list[RecipeItem]
    tokens: int
    truncated: bool = Field(description="Something is cut, or does not fit, or was too much to look at.")


class ShortfallView(BaseModel):
    """Something that is required and not there."""

    code: str
    message: str


class ValidationView(BaseModel):
    """Whether the context has what its recipe, agent and resources require."""

    valid: bool
    missing: list[ShortfallView]


class NoticeView(BaseModel):
    """A warning about the selection."""

    code: str
    category: str
    message: str


class CollectorView(BaseModel):
    """A collector that ran: what it looked at, and how much of it is in the request."""

    name: str
    category: str
    considered: int
    included: int
    failure: str | None
    total_available: int | None
    truncated: bool
    counts: dict[str, int]


class ResolveResult(BaseModel):
    """The exact outgoing request, and why each part of it is there."""

    snapshot: str
    upstream: str
    model: str
    request: dict[str, Any]
    block: str
    tools: list[dict[str, Any]]
    selection: SelectionView
    sources: list[ContextSource]
    focus: str | None
    sections: list[SectionView]
    recipe: RecipeResult | None
    validation: ValidationView
    collectors: list[CollectorView]
    tokens: TokenUsage
    suggested_content: str | None
    warnings: list[NoticeView]
    degraded: list[str]


class ResolveRoutes(msgspec.Struct, frozen=True):
    """The dry run, with the rights of the caller."""

    replayer: Replayer

    def list_routes(self) -> Iterator[ApiRoute]:
        for path in ("/resolve", "/contexts/resolve"):
            yield ApiRoute(
                method="POST",
                path=path,
                handler=self.resolve,
                role=Role.CHAT,
                tag="resolve",
                summary="Show what would be sent upstream, and why",
                body=ResolveBody,
                responses={200: ResolveResult},
                errors=(Forbidden, Conflict, ServiceUnavailable, UpstreamError),
            )

    async def resolve(self, call: ApiCall[None, ResolveBody]) -> ApiReply:
        given = call.body.given
        if given.query is None and "messages" not in (given.request or {}):
            given = replace(given, query="")  # what does not depend on a question can be shown without one
        choice = RequestChoice(given, policies=call.body.build_choice(call.principal, call.body.as_of))
        try:
            return ApiReply((await self.replayer.resolve(call.principal, choice)).describe())
        except InvalidRequest as refused:
            if refused.param != "messages" or (given.request or {}).get("messages") != []:
                raise
            message = "There is no question: send one as `query`, or a chat request with `messages` as `request`."
            raise InvalidRequest(message, param="query") from refused
