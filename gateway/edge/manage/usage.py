"""`/contexts/{context}/usage`: who uses a context or one of its resources."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import BaseModel, Field

from gateway.control.contexts import KIND, Contexts
from gateway.control.objects import Objects
from gateway.control.usage import ContextUse, list_uses
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.paging import Page, Paging, paginate
from gateway.edge.manage.routes import ApiRoute
from gateway.errors import NotFound
from gateway.fair_queue import FairThreads
from gateway.policies.repository import PolicyRepository


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


@dataclass(frozen=True, slots=True)
class UsageRoutes:
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

    async def list(self, call: ApiCall[Paging, None]) -> ApiReply:
        context = self._get_context_alias(call)
        found = await self.threads.run(call.workspace, list_uses, context, self.policies.get_snapshot(call.workspace))
        return ApiReply(paginate(found, call.query, _build_view))

    def _get_context_alias(self, call: ApiCall[Paging, None]) -> str:
        name, resource = call.path["context"], call.path.get("resource")
        if resource is None:
            return self.objects.get(call.workspace, KIND, name).alias
        context, _ = self.contexts.resource(call.workspace, name, resource)
        return context.alias


def _build_view(use: ContextUse) -> UseView:
    return UseView(**asdict(use))
