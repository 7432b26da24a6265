"""`/contexts/{context}/resources`: the resources of a context. Every change is a new version of the context."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway.control.contexts import Contexts, resources_of
from gateway.control.kinds import full_resource
from gateway.control.objects import Objects
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, created, no_content, ok
from gateway.edge.manage.collection import WRITES
from gateway.edge.manage.resource_models import LinkedView, NewResource, Order, ResourceBody, ResourcePage
from gateway.edge.manage.routes import ApiRoute, Paging
from gateway.errors import NotFound

ALL = "/contexts/{context}/resources"
ONE = "/contexts/{context}/resources/{resource}"

Status = Callable[[str], Mapping[str, Any] | None]


def untold(url: str) -> None:
    """The state of a link where nobody keeps it."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of contexts. Tags are those of the context; `status` tells the state of a link by its URL."""

    objects: Objects
    contexts: Contexts
    status: Status = untold

    def routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.EDITOR, tag="resources")
        write = partial(route, errors=WRITES, conditional=True)
        yield route(
            method="GET",
            path=ALL,
            handler=self.list,
            summary="List the resources of a context in their order",
            query=Paging,
            responses={200: ResourcePage},
            errors=(NotFound,),
        )
        yield write(
            method="POST",
            path=ALL,
            handler=self.add,
            summary="Add a resource behind the others",
            body=NewResource,
            plain=True,
            responses={201: LinkedView},
        )
        yield write(
            method="PUT",
            path=ALL + "/order",
            handler=self.order,
            summary="Put the resources in another order",
            body=Order,
            responses={200: ResourcePage},
        )
        yield route(
            method="GET",
            path=ONE,
            handler=self.get,
            summary="One resource",
            responses={200: LinkedView},
            errors=(NotFound,),
        )
        yield write(
            method="PUT",
            path=ONE,
            handler=self.replace,
            summary="Replace a resource",
            body=ResourceBody,
            plain=True,
            responses={200: LinkedView},
        )
        yield write(method="DELETE", path=ONE, handler=self.remove, summary="Delete a resource", responses={204: None})

    async def list(self, call: ApiCall[Paging, None]) -> ApiReply:
        context = self.objects.get(call.workspace, "contexts", call.path["context"])
        every = _every(context.alias, resources_of(context))
        return ok({"items": every[call.query.skip :][: call.query.take], "total": len(every)}, context.tag)

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        context, data = self.contexts.resource(call.workspace, call.path["context"], call.path["resource"])
        return ok(self._view(context.alias, call.path["resource"], data), context.tag)

    async def add(self, call: ApiCall[None, Any]) -> ApiReply:
        context, id = await self.contexts.add(call.principal, call.path["context"], call.body, call.if_match)
        location = f"/contexts/{context.alias}/resources/{id}"
        return created(location, self._view(context.alias, id, resources_of(context)[id]), context.tag)

    async def replace(self, call: ApiCall[None, Any]) -> ApiReply:
        where = call.path["context"], call.path["resource"]
        context = await self.contexts.replace(call.principal, where, call.body, call.if_match)
        return ok(self._view(context.alias, where[1], resources_of(context)[where[1]]), context.tag)

    async def remove(self, call: ApiCall[None, None]) -> ApiReply:
        where = call.path["context"], call.path["resource"]
        await self.contexts.remove(call.principal, where, call.if_match)
        return no_content()

    async def order(self, call: ApiCall[None, Order]) -> ApiReply:
        name, ids = call.path["context"], call.body.order
        context = await self.contexts.order(call.principal, name, ids, call.if_match)
        every = _every(context.alias, resources_of(context))
        return ok({"items": every, "total": len(every)}, context.tag)

    def _view(self, context: str, id: str, data: Mapping[str, Any]) -> dict[str, Any]:
        shown = full_resource(context, id, data)
        url = shown["data"].get("url") if isinstance(shown["data"], dict) else None
        return {**shown, "link": self.status(url) if isinstance(url, str) else None}


def _every(context: str, resources: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [full_resource(context, id, data) for id, data in resources.items()]
