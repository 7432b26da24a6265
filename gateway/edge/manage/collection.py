"""What every kind of policy object can do: list, read, create, replace, delete."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel

from gateway.control.kinds import noun
from gateway.control.objects import Objects
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, created, found, no_content, ok
from gateway.edge.manage.routes import ApiRoute, ListQuery
from gateway.edge.manage.views import page, view
from gateway.errors import Conflict, InsufficientStorage, InvalidObject, NotFound

WRITES = (NotFound, Conflict, InvalidObject, InsufficientStorage)


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a kind: as it is read, as a part of a list, as it is sent, and as it is sent to be made."""

    view: type[BaseModel]
    page: type[BaseModel]
    sent: type[BaseModel]
    new: type[BaseModel]


@dataclass(frozen=True, slots=True)
class Collection:
    """One kind of object below `/{kind}`; every one is found by alias or id."""

    kind: str
    models: Models
    objects: Objects

    def routes(self) -> Iterator[ApiRoute]:
        one, models = noun(self.kind), self.models
        every, single = f"/{self.kind}", f"/{self.kind}/{{{one}}}"
        route = partial(ApiRoute, role=Role.EDITOR, tag=self.kind)
        yield route(
            method="GET",
            path=every,
            handler=self.list,
            summary=f"List the {self.kind}",
            query=ListQuery,
            responses={200: models.page},
        )
        yield route(
            method="POST",
            path=every,
            handler=self.create,
            summary=f"Create a {one}",
            body=models.new,
            plain=True,
            responses={201: models.view},
            errors=(Conflict, InvalidObject, InsufficientStorage),
        )
        yield route(
            method="GET",
            path=single,
            handler=self.get,
            summary=f"One {one}",
            responses={200: models.view},
            errors=(NotFound,),
            conditional=True,
        )
        yield route(
            method="PUT",
            path=single,
            handler=self.update,
            summary=f"Replace a {one}",
            body=models.sent,
            plain=True,
            responses={200: models.view},
            errors=WRITES,
            conditional=True,
        )
        yield route(
            method="DELETE",
            path=single,
            handler=self.delete,
            summary=f"Delete a {one} that nothing refers to",
            responses={204: None},
            errors=WRITES,
            conditional=True,
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        return ok(page(self.objects.every(call.workspace, self.kind, call.query.filter), call.query))

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        one = self.objects.get(call.workspace, self.kind, self._name(call))
        return found(call, view(one), one.tag)

    async def create(self, call: ApiCall[None, Any]) -> ApiReply:
        one = await self.objects.create(call.principal, self.kind, call.body)
        return created(f"/{self.kind}/{one.alias}", view(one), one.tag)

    async def update(self, call: ApiCall[None, Any]) -> ApiReply:
        one = await self.objects.update(call.principal, self.kind, self._name(call), call.body, call.if_match)
        return ok(view(one), one.tag)

    async def delete(self, call: ApiCall[None, None]) -> ApiReply:
        await self.objects.delete(call.principal, self.kind, self._name(call), call.if_match)
        return no_content()

    def _name(self, call: ApiCall[Any, Any]) -> str:
        return call.path[noun(self.kind)]
