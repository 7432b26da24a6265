"""`/keys`: the keys of the caller's workspace. A key is shown once, when it is created; its hash never."""

from collections.abc import Iterator
from functools import partial
from typing import Literal

import msgspec
from pydantic import AwareDatetime, BaseModel, Field

from gateway.control.key_shape import KeyInfo, KeySpec, Label, LimitsShape
from gateway.control.keys import Keys
from gateway.domain.principal import Role
from gateway.edge.manage.calls import (
    ApiCall,
    ApiReply,
    allow_replacing,
    reply_created,
    reply_empty,
    reply_if_changed,
)
from gateway.edge.manage.paging import ListQuery, Page, build_page
from gateway.edge.manage.routes import ApiRoute
from gateway.errors import Conflict, NotFound

TAG = "keys"


class KeyRequest(KeySpec):
    """What a new key may do. A field that is left out is restricted as in your own key."""

    workspace: Label | None = Field(None, description="Only your own.")


class KeyView(BaseModel):
    """A key, without its secret."""

    id: str
    name: str
    workspace: str
    role: Role
    agents: list[str] | None = Field(description="The agents that it may use; null: all.")
    agent: str | None = Field(description="The agent of all its requests, whatever they name.")
    agent_optional: bool = Field(description="Whether requests without an agent are allowed although `agents` is set.")
    models: list[str] | None = Field(description="The models that it may use, `*` standing for any text; null: all.")
    tools: list[str] | None = Field(description="The tools that it may use, by ids or patterns; null: all.")
    groups: list[str] = Field(description="Groups that it belongs to in reader lists; `*`: every group.")
    tier: str | None
    limits: LimitsShape
    act_for_users: bool
    expires_at: AwareDatetime | None
    source: Literal["store", "config"] = Field(description="Keys from the configuration are read-only.")
    version: int
    updated_at: AwareDatetime | None
    updated_by: str | None


class KeyWithSecret(KeyView):
    """A key that was just created."""

    key: str = Field(description="The key itself. It is shown only this once and not stored.")


class KeyPage(Page[KeyView]):
    """A page of the list of keys."""


class KeyRoutes(msgspec.Struct, frozen=True):
    """The keys of a workspace."""

    keys: Keys

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.ADMIN, tag=TAG)
        yield route(
            method="GET",
            path="/keys",
            handler=self.list,
            summary="List the keys of the workspace",
            query=ListQuery,
            responses={200: KeyPage},
        )
        yield route(
            method="POST",
            path="/keys",
            handler=self.create,
            summary="Create a key; it is shown only this once",
            body=KeyRequest,
            responses={201: KeyWithSecret},
            errors=(Conflict,),
        )
        yield route(
            method="GET",
            path="/keys/{key}",
            handler=self.get,
            summary="Get a key",
            responses={200: KeyView},
            errors=(NotFound,),
            conditional=True,
        )
        yield route(
            method="PUT",
            path="/keys/{key}",
            handler=self.update,
            summary="Change what a key may do",
            body=KeySpec,
            responses={200: KeyView},
            errors=(NotFound, Conflict),
            conditional=True,
        )
        yield route(
            method="DELETE",
            path="/keys/{key}",
            handler=self.revoke,
            summary="Revoke a key; two seconds later no replica accepts it",
            responses={204: None},
            errors=(NotFound, Conflict),
            conditional=True,
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        query = call.query
        found = self.keys.list_page(call.workspace, query.accepts, query.skip, query.take)
        return ApiReply(build_page([_build_view(key) for key in found.keys], found.total))

    async def create(self, call: ApiCall[None, KeyRequest]) -> ApiReply:
        created = await self.keys.create(call.principal, call.body, call.body.workspace)
        view = KeyWithSecret.model_validate({**created.info.data, "key": created.secret})
        return reply_created(f"/keys/{created.info.id}", view, created.info.tag)

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        key = self.keys.get(call.workspace, call.path["key"])
        return reply_if_changed(call, _build_view(key), key.tag)

    async def update(self, call: ApiCall[None, KeySpec]) -> ApiReply:
        allow_replacing(call, f"keys/{self.keys.get(call.workspace, call.path['key']).id}")
        key = await self.keys.update(call.principal, call.path["key"], call.body, call.if_match)
        return ApiReply(_build_view(key), etag=key.tag)

    async def revoke(self, call: ApiCall[None, None]) -> ApiReply:
        await self.keys.revoke(call.principal, call.path["key"], call.if_match)
        return reply_empty()


def _build_view(key: KeyInfo) -> KeyView:
    return KeyView.model_validate(key.data)
