"""`/contexts`: bundles of resources, and which of them is the global default."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from pydantic import Field

from gateway.control.contexts import KIND, Contexts
from gateway.control.objects import Alike
from gateway.control.services import Services
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, found, ok
from gateway.edge.manage.collection import WRITES, Collection, Models
from gateway.edge.manage.drafts import Drafting
from gateway.edge.manage.resource_models import ResourceBody, ResourceView
from gateway.edge.manage.routes import ApiRoute, RouteGroup
from gateway.edge.manage.versions import Histories
from gateway.edge.manage.views import ALIAS, Echo, Page, Told, view
from gateway.errors import NotFound
from gateway.policies.shapes import ContextShape


class ContextView(Told, ContextShape):
    """A context with its resources in their order."""

    name: str
    resources: list[ResourceView]


class ContextPage(Page[ContextView]):
    """A part of the list of contexts."""


class ContextBody(Echo, ContextShape):
    """A context as it is sent to replace one; without `resources` it keeps those that it has."""

    alias: str | None = None
    resources: list[ResourceBody] | dict[str, ResourceBody] | None = Field(default_factory=dict)


class NewContext(ContextBody):
    """A context as it is sent to be made."""

    alias: str = ALIAS


MODELS = Models(ContextView, ContextPage, ContextBody, NewContext)


@dataclass(frozen=True, slots=True)
class GlobalDefault:
    """The context that applies when nothing else does."""

    contexts: Contexts

    def routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.EDITOR, tag=KIND, responses={200: ContextView}, conditional=True)
        yield route(
            method="GET",
            path="/contexts/global",
            handler=self.get,
            summary="The global default",
            errors=(NotFound,),
        )
        for method in ("PUT", "POST"):
            yield route(
                method=method,
                path="/contexts/{context}/set-global",
                handler=self.set,
                summary="Make a context the global default in place of the former",
                errors=WRITES,
            )

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        one = self.contexts.default(call.workspace)
        return found(call, view(one), one.tag)

    async def set(self, call: ApiCall[None, None]) -> ApiReply:
        one = await self.contexts.set_default(call.principal, call.path["context"], call.if_match)
        return ok(view(one), one.tag)


def contexts(services: Services) -> tuple[RouteGroup, ...]:
    """Everything below `/contexts` but the resources of a context."""
    return (
        GlobalDefault(services.contexts),
        Collection(KIND, MODELS, services.objects),
        Histories(KIND, ContextView, services.versions(Alike(KIND, services.objects))),
        Drafting(KIND, MODELS, services.drafts),
    )
