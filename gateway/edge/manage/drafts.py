"""`/{kind}/{object}/draft` and `/publish`: changes that wait; and `/drafts`, all of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel

from gateway.control.drafts import Drafts
from gateway.control.kinds import noun
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, found, no_content, ok
from gateway.edge.manage.collection import WRITES, Models
from gateway.edge.manage.routes import ApiRoute, Paging
from gateway.edge.manage.views import Page, rfc3339, view
from gateway.errors import NotFound


class DraftView(BaseModel):
    """One draft in the list of all."""

    kind: Literal["contexts", "profiles", "agents", "prompts"]
    alias: str
    version: int
    updated_at: datetime
    updated_by: str


class DraftPage(Page[DraftView]):
    """A part of the drafts of a workspace."""


@dataclass(frozen=True, slots=True)
class DraftList:
    """All drafts, also of what does not exist yet."""

    drafts: Drafts

    def routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/drafts",
            handler=self.list,
            role=Role.EDITOR,
            tag="drafts",
            summary="List what is waiting to be published",
            query=Paging,
            responses={200: DraftPage},
        )

    async def list(self, call: ApiCall[Paging, None]) -> ApiReply:
        every = [
            {
                "kind": one.kind,
                "alias": one.alias,
                "version": one.version,
                "updated_at": rfc3339(one.own().at),
                "updated_by": one.own().by,
            }
            for one in self.drafts.every(call.workspace)
        ]
        return ok({"items": every[call.query.skip :][: call.query.take], "total": len(every)})


@dataclass(frozen=True, slots=True)
class Drafting:
    """The drafts of one kind of object."""

    kind: str
    models: Models
    drafts: Drafts

    def routes(self) -> Iterator[ApiRoute]:
        one, seen = noun(self.kind), self.models.view
        path = f"/{self.kind}/{{{one}}}/draft"
        route = partial(ApiRoute, role=Role.EDITOR, tag=self.kind, conditional=True)
        yield route(
            method="GET",
            path=path,
            handler=self.get,
            summary=f"The draft of a {one}",
            responses={200: seen},
            errors=(NotFound,),
        )
        yield route(
            method="PUT",
            path=path,
            handler=self.put,
            summary=f"Make or replace the draft of a {one}, which need not exist yet",
            body=self.models.sent,
            plain=True,
            responses={200: seen},
            errors=WRITES,
        )
        yield route(
            method="DELETE",
            path=path,
            handler=self.delete,
            summary=f"Throw the draft of a {one} away",
            responses={204: None},
            errors=WRITES,
        )
        yield route(
            method="POST",
            path=f"/{self.kind}/{{{one}}}/publish",
            handler=self.publish,
            summary=f"Make the draft the next version of the {one}",
            responses={200: seen},
            errors=WRITES,
        )

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        one = self.drafts.get(call.workspace, self.kind, self._name(call))
        return found(call, view(one), one.tag)

    async def put(self, call: ApiCall[None, Any]) -> ApiReply:
        one = await self.drafts.put(call.principal, self.kind, self._name(call), call.body, call.if_match)
        return ok(view(one), one.tag)

    async def delete(self, call: ApiCall[None, None]) -> ApiReply:
        await self.drafts.delete(call.principal, self.kind, self._name(call), call.if_match)
        return no_content()

    async def publish(self, call: ApiCall[None, None]) -> ApiReply:
        one = await self.drafts.publish(call.principal, self.kind, self._name(call), call.if_match)
        return ok(view(one), one.tag)

    def _name(self, call: ApiCall[Any, Any]) -> str:
        return call.path[noun(self.kind)]
