"""`/{kind}/{object}/draft` and `/publish`: changes that wait to be published; and `/drafts`, the list of all."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, Literal

import msgspec
from pydantic import BaseModel

from gateway.control.drafts import Drafts
from gateway.control.object_bodies import kind_name
from gateway.control.objects import PolicyObject
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, reply_empty, reply_if_changed
from gateway.edge.manage.paging import Page, Paging, paginate
from gateway.edge.manage.routes import WRITE_ERRORS, ApiRoute
from gateway.edge.manage.views import ObjectModels, format_timestamp, render_object
from gateway.errors import NotFound


class DraftView(BaseModel):
    """A draft in the list of all drafts."""

    kind: Literal["contexts", "profiles", "agents", "prompts", "recipes"]
    alias: str
    version: int
    updated_at: datetime
    updated_by: str


class DraftPage(Page[DraftView]):
    """A page of the drafts of a workspace."""


class DraftListRoutes(msgspec.Struct, frozen=True):
    """All drafts, also of objects that do not exist yet."""

    drafts: Drafts

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/drafts",
            handler=self.list,
            role=Role.EDITOR,
            tag="drafts",
            summary="List all drafts",
            query=Paging,
            responses={200: DraftPage},
        )

    async def list(self, call: ApiCall[Paging, None]) -> ApiReply:
        return ApiReply(paginate(self.drafts.list_all(call.workspace), call.query, _render_draft))


class DraftRoutes(msgspec.Struct, frozen=True):
    """The drafts of one kind of object."""

    kind: str
    models: ObjectModels
    drafts: Drafts

    def list_routes(self) -> Iterator[ApiRoute]:
        one, view = kind_name(self.kind), self.models.view
        path = f"/{self.kind}/{{{one}}}/draft"
        route = partial(ApiRoute, role=Role.EDITOR, tag=self.kind, conditional=True)
        yield route(
            method="GET",
            path=path,
            handler=self.get,
            summary=f"Get the draft of the {one}",
            responses={200: view},
            errors=(NotFound,),
        )
        yield route(
            method="PUT",
            path=path,
            handler=self.put,
            summary=f"Create or replace the draft of the {one}, which need not exist yet",
            body=self.models.body,
            handler_validates=True,
            responses={200: view},
            errors=WRITE_ERRORS,
        )
        yield route(
            method="DELETE",
            path=path,
            handler=self.delete,
            summary=f"Discard the draft of the {one}",
            responses={204: None},
            errors=WRITE_ERRORS,
        )
        yield route(
            method="POST",
            path=f"/{self.kind}/{{{one}}}/publish",
            handler=self.publish,
            summary=f"Publish the draft as the next version of the {one}",
            responses={200: view},
            errors=WRITE_ERRORS,
        )

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        one = self.drafts.get(call.workspace, self.kind, self._get_name(call))
        return reply_if_changed(call, render_object(one), one.tag)

    async def put(self, call: ApiCall[None, Any]) -> ApiReply:
        one = await self.drafts.put(
            call.principal, self.kind, self._get_name(call), call.body, call.if_match, only_new=call.only_new
        )
        return ApiReply(render_object(one), etag=one.tag)

    async def delete(self, call: ApiCall[None, None]) -> ApiReply:
        await self.drafts.delete(call.principal, self.kind, self._get_name(call), call.if_match)
        return reply_empty()

    async def publish(self, call: ApiCall[None, None]) -> ApiReply:
        one = await self.drafts.publish(call.principal, self.kind, self._get_name(call), call.if_match)
        return ApiReply(render_object(one), etag=one.tag)

    def _get_name(self, call: ApiCall[Any, Any]) -> str:
        return call.path[kind_name(self.kind)]


def _render_draft(draft: PolicyObject) -> dict[str, Any]:
    record = draft.get_record()
    return {
        "kind": draft.kind,
        "alias": draft.alias,
        "version": draft.version,
        "updated_at": format_timestamp(record.at),
        "updated_by": record.by,
    }
