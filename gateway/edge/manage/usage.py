"""`/contexts/{context}/usage`: who uses a context or one of its resources."""

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec.structs import asdict
from pydantic import BaseModel, Field

from gateway.control.contexts import KIND, Contexts
from gateway.control.objects import Objects
from gateway.control.usage import ContextUse, list_uses, summarize_uses
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.paging import Page, Paging, QueryParameters, paginate
from gateway.edge.manage.routes import ApiRoute
from gateway.errors import NotFound
from gateway.fair_queue import FairThreads
from gateway.policies.repository import PolicyRepository

MOST_CONTEXTS = 60  # of one call, more than any list shows at once
MOST_SHOWN = 3


class UseView(BaseModel):
    """One place where a context is used."""

    level: Literal["global", "profile", "agent", "prompt", "content"]
    entity: str = Field(description="Alias or path of the object that names the context; empty for global.")
    name: str
    through: Literal["assignment", "default", "mandatory"]
    path: str | None = None
    inherited: int | None = Field(None, description="Content: how many nodes below inherit it.")


class UsePage(Page[UseView]):
    """A page of the list of uses."""


class UseSummaryView(BaseModel):
    """How often a context is used."""

    context: str
    total: int
    first: list[UseView] = Field(description=f"{MOST_SHOWN} of the places at most, without how many nodes inherit it.")


class UseSummaries(BaseModel):
    """How often contexts are used, in the order in which they were named."""

    items: list[UseSummaryView]


class UseSummaryQuery(QueryParameters):
    """Which contexts are asked about."""

    contexts: str = Field(max_length=4000, description=f"Up to {MOST_CONTEXTS} aliases with commas between them.")

    def list_aliases(self) -> list[str]:
        return [alias for alias in self.contexts.split(",") if alias][:MOST_CONTEXTS]


class UsageRoutes(msgspec.Struct, frozen=True):
    """Who is affected by a change. A resource is used wherever its context is."""

    policies: PolicyRepository
    objects: Objects
    contexts: Contexts
    threads: FairThreads

    def list_routes(self) -> Iterator[ApiRoute]:
        for path in ("/contexts/{context}/usage", "/contexts/{context}/resources/{resource}/usage"):
            yield ApiRoute(
                method="GET",
                path=path,
                handler=self.list,
                role=Role.EDITOR,
                tag="contexts",
                summary="List who uses it",
                query=Paging,
                responses={200: UsePage},
                errors=(NotFound,),
            )
        yield ApiRoute(
            method="GET",
            path="/usage",
            handler=self.summarize,
            role=Role.EDITOR,
            tag="contexts",
            summary="Tell how often several contexts are used",
            query=UseSummaryQuery,
            responses={200: UseSummaries},
        )

    async def list(self, call: ApiCall[Paging, None]) -> ApiReply:
        context = self._get_context_alias(call)
        found = await self.threads.run(call.workspace, list_uses, context, self.policies.get_snapshot(call.workspace))
        return ApiReply(paginate(found, call.query, _build_view))

    async def summarize(self, call: ApiCall[UseSummaryQuery, None]) -> ApiReply:
        snapshot, aliases = self.policies.get_snapshot(call.workspace), call.query.list_aliases()
        found = await self.threads.run(call.workspace, summarize_uses, aliases, snapshot, MOST_SHOWN)
        return ApiReply(
            UseSummaries.model_validate(
                {"items": [asdict(one) | {"first": [asdict(use) for use in one.first]} for one in found]}
            )
        )

    def _get_context_alias(self, call: ApiCall[Paging, None]) -> str:
        name, resource = call.path["context"], call.path.get("resource")
        if resource is None:
            return self.objects.get(call.workspace, KIND, name).alias
        context, _ = self.contexts.resource(call.workspace, name, resource)
        return context.alias


def _build_view(use: ContextUse) -> UseView:
    return UseView(**asdict(use))
