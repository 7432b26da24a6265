"""`/contexts/{context}/usage`: who uses a context or one of its resources."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from pydantic import BaseModel, Field

from gateway.control.usage import uses
from gateway.domain.principal import Role
from gateway.domain.snapshot import Snapshot
from gateway.edge.manage.calls import ApiCall, ApiReply, ok
from gateway.edge.manage.routes import ApiRoute, Paging
from gateway.errors import NotFound
from gateway.policies.files import PolicyEntry


class Policies(Protocol):
    """What a workspace has."""

    def of(self, workspace: str) -> Snapshot:
        """What is served; raises Unavailable."""
        ...

    def entries(self, workspace: str) -> Mapping[str, Mapping[str, PolicyEntry]]:
        """Every object, valid now or not."""
        ...


class UseView(BaseModel):
    """One place that a context is used at."""

    level: Literal["global", "profile", "agent", "prompt", "content"]
    entity: str = Field(description="Alias or path of what names the context; empty for global.")
    name: str
    through: Literal["assignment", "default", "mandatory"]
    path: str | None = None
    inherited: int | None = Field(None, description="Content: how many nodes below take it over.")


class UsePage(BaseModel):
    """A part of the list of uses."""

    items: list[UseView]
    total: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Who would notice a change."""

    policies: Policies

    def routes(self) -> Iterator[ApiRoute]:
        for path in ("/contexts/{context}/usage", "/contexts/{context}/resources/{resource}/usage"):
            yield ApiRoute(
                method="GET",
                path=path,
                handler=self.list,
                role=Role.EDITOR,
                tag="contexts",
                summary="Who uses it",
                query=Paging,
                responses={200: UsePage},
                errors=(NotFound,),
            )

    async def list(self, call: ApiCall[Paging, None]) -> ApiReply:
        context = self._context(call)
        found = await asyncio.to_thread(uses, context, self.policies.of(call.workspace))
        page = found[call.query.skip :][: call.query.take]
        return ok(UsePage(items=[UseView(**asdict(use)) for use in page], total=len(found)))

    def _context(self, call: ApiCall[Paging, None]) -> str:
        """The alias of the context, by alias or id; a resource is used wherever its context is."""
        name, resource = call.path["context"], call.path.get("resource")
        for alias, entry in self.policies.entries(call.workspace)["contexts"].items():
            if name == alias or (entry.record is not None and name == entry.record.id):
                if resource is not None and resource not in (entry.data.get("resources") or {}):
                    raise NotFound(f"The context {alias!r} has no resource {resource!r}.")
                return alias
        raise NotFound(f"There is no context {name!r}.")
