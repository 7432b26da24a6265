"""`/contexts/{context}/resources`: the resources of a context. Every change is a new version of the context."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.control.contexts import Contexts, copy_resources
from gateway.control.object_bodies import format_resource_in_full
from gateway.control.objects import Objects, PolicyObject
from gateway.control.sizes import SizeCheck
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, reply_created, reply_empty
from gateway.edge.manage.links import LinkState, render_link_state
from gateway.edge.manage.objects import add_size_warning
from gateway.edge.manage.paging import Page, Paging, build_page, paginate
from gateway.edge.manage.routes import WRITE_ERRORS, ApiRoute
from gateway.errors import NotFound
from gateway.links.cache import LinkCache
from gateway.policies.shapes import ResourceShape

ALL = "/contexts/{context}/resources"
ONE = "/contexts/{context}/resources/{resource}"


class ResourceView(ResourceShape):
    """A resource of a context."""

    id: str
    ref: str = Field(description="context/id: how requests and tools refer to it.")
    name: str


class ResourceDetail(ResourceView):
    """A single resource, with the state of its link if it has one."""

    link: LinkState | None


class ResourcePage(Page[ResourceView]):
    """A page of the resources of a context, in order."""


class ResourceBody(ResourceShape):
    """A resource in a request; `ref` and `link` are ignored."""

    id: str | None = Field(None, description="Identifies it inside its context; it never changes.")
    alias: str | None = Field(None, description="The same as id.")
    ref: Any = None
    link: Any = None


class NewResource(ResourceBody):
    """A resource to be created."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["id"]}, {"required": ["alias"]}]})


class ResourceOrder(BaseModel):
    """The ids of all resources of a context in their new order; the bare list is accepted, too."""

    model_config = ConfigDict(extra="forbid")

    order: list[str]

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_list(cls, value: Any) -> Any:
        return {"order": value} if isinstance(value, list) else value


class ResourceRoutes(msgspec.Struct, frozen=True):
    """The resources of contexts. Their tags are those of the context."""

    objects: Objects
    contexts: Contexts
    link_cache: LinkCache | None = None
    sizes: SizeCheck | None = None

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.EDITOR, tag="resources")
        write = partial(route, errors=WRITE_ERRORS, conditional=True)
        yield route(
            method="GET",
            path=ALL,
            handler=self.list,
            summary="List the resources of a context in order",
            query=Paging,
            responses={200: ResourcePage},
            errors=(NotFound,),
        )
        yield write(
            method="POST",
            path=ALL,
            handler=self.add,
            summary="Append a resource",
            body=NewResource,
            handler_validates=True,
            responses={201: ResourceDetail},
        )
        yield write(
            method="PUT",
            path=ALL + "/order",
            handler=self.order,
            summary="Reorder the resources",
            body=ResourceOrder,
            responses={200: ResourcePage},
        )
        yield route(
            method="GET",
            path=ONE,
            handler=self.get,
            summary="Get a resource",
            responses={200: ResourceDetail},
            errors=(NotFound,),
        )
        yield write(
            method="PUT",
            path=ONE,
            handler=self.save,
            summary="Replace a resource, or append it",
            body=ResourceBody,
            handler_validates=True,
            responses={200: ResourceDetail, 201: ResourceDetail},
        )
        yield write(method="DELETE", path=ONE, handler=self.remove, summary="Delete a resource", responses={204: None})

    async def list(self, call: ApiCall[Paging, None]) -> ApiReply:
        context = self.objects.get(call.workspace, "contexts", call.path["context"])
        resources = list(copy_resources(context).items())
        page = paginate(resources, call.query, lambda one: format_resource_in_full(context.alias, *one))
        return ApiReply(page, etag=context.tag)

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        context, data = self.contexts.resource(call.workspace, call.path["context"], call.path["resource"])
        return ApiReply(self._render(context.alias, call.path["resource"], data), etag=context.tag)

    async def add(self, call: ApiCall[None, Any]) -> ApiReply:
        context, id = await self.contexts.add(call.principal, call.path["context"], call.body, call.if_match)
        return await self._reply(call, context, id, created=True)

    async def save(self, call: ApiCall[None, Any]) -> ApiReply:
        where = call.path["context"], call.path["resource"]
        context, created = await self.contexts.save(
            call.principal, where, call.body, call.if_match, only_new=call.only_new
        )
        return await self._reply(call, context, where[1], created=created)

    async def _reply(self, call: ApiCall[None, Any], context: PolicyObject, id: str, *, created: bool) -> ApiReply:
        shown = self._render(context.alias, id, copy_resources(context)[id])
        location = f"/contexts/{context.alias}/resources/{id}"
        reply = reply_created(location, shown, context.tag) if created else ApiReply(shown, etag=context.tag)
        return await add_size_warning(reply, self.sizes, call.workspace, "contexts", context.alias)

    async def remove(self, call: ApiCall[None, None]) -> ApiReply:
        where = call.path["context"], call.path["resource"]
        await self.contexts.remove(call.principal, where, call.if_match)
        return reply_empty()

    async def order(self, call: ApiCall[None, ResourceOrder]) -> ApiReply:
        name, ids = call.path["context"], call.body.order
        context = await self.contexts.order(call.principal, name, ids, call.if_match)
        resources = copy_resources(context).items()
        every = [format_resource_in_full(context.alias, id, data) for id, data in resources]
        return ApiReply(build_page(every, len(every)), etag=context.tag)

    def _render(self, context: str, id: str, data: Mapping[str, Any]) -> dict[str, Any]:
        rendered = format_resource_in_full(context, id, data)
        url = rendered["data"].get("url") if isinstance(rendered["data"], dict) else None
        return {**rendered, "link": self._render_link(url) if isinstance(url, str) else None}

    def _render_link(self, url: str) -> dict[str, Any] | None:
        status = self.link_cache.find_status(url) if self.link_cache is not None else None
        return None if status is None else render_link_state(status)
