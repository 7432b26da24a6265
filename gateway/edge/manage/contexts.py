"""`/contexts`: bundles of resources, and which of them is the global default."""

from collections.abc import Iterator
from functools import partial

import msgspec
from pydantic import Field

from gateway.control.contexts import KIND, Contexts
from gateway.control.services import ControlServices
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, reply_if_changed
from gateway.edge.manage.objects import build_object_routes
from gateway.edge.manage.paging import Page
from gateway.edge.manage.resources import ResourceBody, ResourceView
from gateway.edge.manage.routes import WRITE_ERRORS, ApiRoute, RouteGroup
from gateway.edge.manage.views import ALIAS, IgnoredMetadata, ObjectMetadata, ObjectModels, render_object
from gateway.errors import NotFound
from gateway.policies.shapes import ContextShape


class ContextView(ObjectMetadata, ContextShape):
    """A context with its resources in order."""

    name: str
    resources: list[ResourceView]
    resource_count: int | None = Field(None, description="In brief lists: how many resources the context has.")


class ContextPage(Page[ContextView]):
    """A page of the list of contexts."""


class ContextBody(IgnoredMetadata, ContextShape):
    """A context that replaces another; without `resources` it keeps those that it has."""

    alias: str | None = None
    resources: list[ResourceBody] | dict[str, ResourceBody] | None = Field(default_factory=dict)


class NewContext(ContextBody):
    """A context to be created."""

    alias: str = ALIAS


CONTEXT_MODELS = ObjectModels(ContextView, ContextPage, ContextBody, NewContext)


class GlobalContextRoutes(msgspec.Struct, frozen=True):
    """The global default: the context that applies when nothing else does."""

    contexts: Contexts

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.EDITOR, tag=KIND, responses={200: ContextView}, conditional=True)
        yield route(
            method="GET",
            path="/contexts/global",
            handler=self.get,
            summary="Get the global default",
            errors=(NotFound,),
        )
        for method in ("PUT", "POST"):
            yield route(
                method=method,
                path="/contexts/{context}/set-global",
                handler=self.set,
                summary="Make a context the global default",
                errors=WRITE_ERRORS,
            )

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        one = self.contexts.get_default(call.workspace)
        return reply_if_changed(call, render_object(one), one.tag)

    async def set(self, call: ApiCall[None, None]) -> ApiReply:
        one = await self.contexts.set_default(call.principal, call.path["context"], call.if_match)
        return ApiReply(render_object(one), etag=one.tag)


def build_context_routes(services: ControlServices) -> tuple[RouteGroup, ...]:
    """Everything below `/contexts` except the resources of a context."""
    return GlobalContextRoutes(services.contexts), *build_object_routes(KIND, CONTEXT_MODELS, services)
