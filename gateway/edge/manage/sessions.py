"""`/sessions`: what conversations add, remove and keep, and the settings that hold for them."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool

from gateway.control.sessions import SessionCondition, SessionItem, SessionManager, SessionOwnerChoice
from gateway.domain.agent import ModelDefaults, Placement, SelectionSettings, ToolPermission
from gateway.domain.principal import Role
from gateway.domain.session import SessionKey, SessionRecord, SessionSettings
from gateway.edge.manage.calls import ApiCall, ApiReply, reply_created, reply_empty, reply_if_changed
from gateway.edge.manage.paging import Page, Paging, QueryParameters, build_page
from gateway.edge.manage.routes import ApiRoute
from gateway.edge.manage.views import to_datetime
from gateway.errors import Conflict, NotFound, QuotaExceeded
from gateway.policies.shapes import Number, Retain, Whole
from gateway.scopes.context_request import SelectionBody

TAG = "sessions"
ONE = "/sessions/{session}"
ITEM = ONE + "/items/{context}/{resource}"

Label = Annotated[str, Field(max_length=256)]


class OwnerQuery(QueryParameters):
    """Whose session it is."""

    principal: str = Field("", max_length=256, description="Id or name of the key; yours unless you say another.")
    user: str = Field("", max_length=256, description="The user that the key acts for.")

    @property
    def choice(self) -> SessionOwnerChoice:
        return SessionOwnerChoice(self.principal or None, self.user or None)


class SessionListQuery(Paging, OwnerQuery):
    """Whose sessions, and which page of them."""


class SessionSettingsBody(BaseModel):
    """What holds for every request of the session that says nothing itself; null: as its agent has it."""

    model_config = ConfigDict(extra="forbid")

    inject: StrictBool | None = Field(None, description="false: nothing is injected but what is mandatory.")
    budget: Whole | None = Field(None, ge=0)
    selection: SelectionBody = SelectionBody()
    placement: Placement | None = None
    max_turns: Whole | None = Field(None, ge=1, le=50)
    retain: Retain | None = Field(None, description="Whether resources that the model fetched stay in the session.")
    announce: StrictBool | None = Field(None, description="Whether the model is told when the content has changed.")
    tool_permission: ToolPermission | None = Field(None, description="Whether tools of servers may be run.")
    model: Label | None = None
    temperature: Number | None = Field(None, ge=0, le=2)
    top_p: Number | None = Field(None, ge=0, le=1)
    max_tokens: Whole | None = Field(None, ge=1)


class SessionBody(BaseModel):
    """A session's settings and its current content."""

    model_config = ConfigDict(extra="forbid")

    settings: SessionSettingsBody = SessionSettingsBody()
    content: Annotated[str, Field(max_length=1024)] | None = Field(None, description="Path or id of a content node.")


class SessionView(BaseModel):
    """A session."""

    id: str
    principal: str
    user: str | None
    content: str | None
    added: list[str] = Field(description="Resources that were added by hand, as `context/resource`.")
    removed: list[str] = Field(description="Resources that were removed by hand.")
    retained: list[str] = Field(description="Resources that the model fetched.")
    sticky: list[str] = Field(description="Resources that semantic search picked and that stay.")
    settings: SessionSettingsBody
    version: int
    created_at: AwareDatetime
    updated_at: AwareDatetime


class SessionViewPage(Page[SessionView]):
    """A page of the list of sessions."""


class SessionItemBody(BaseModel):
    """A resource to add."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(max_length=200, description="The resource, as `context/resource`.")


class SessionItemView(BaseModel):
    """A resource that a session adds, keeps or leaves out."""

    id: str
    state: Literal["added", "retained", "removed"]
    name: str | None = Field(description="null: it no longer exists, or you may not read it.")
    type: str | None
    mode: str | None


class SessionItemPage(Page[SessionItemView]):
    """The items of a session."""


class SessionRoutes(msgspec.Struct, frozen=True):
    """The sessions of a workspace; a chat key reaches its own."""

    manager: SessionManager

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.CHAT, tag=TAG)
        yield route(
            method="GET",
            path="/sessions",
            handler=self.list,
            summary="List sessions: your own, or as an editor those of the workspace",
            query=SessionListQuery,
            responses={200: SessionViewPage},
        )
        yield route(
            method="GET",
            path=ONE,
            handler=self.get,
            summary="Get a session",
            query=OwnerQuery,
            responses={200: SessionView},
            errors=(NotFound,),
            conditional=True,
        )
        yield route(
            method="PUT",
            path=ONE,
            handler=self.configure,
            summary="Set the settings and the current content of a session; creates it",
            query=OwnerQuery,
            body=SessionBody,
            responses={200: SessionView},
            errors=(NotFound, Conflict, QuotaExceeded),
            conditional=True,
        )
        yield route(
            method="DELETE",
            path=ONE,
            handler=self.delete,
            summary="End a session",
            query=OwnerQuery,
            responses={204: None},
            errors=(NotFound,),
            conditional=True,
        )
        yield from self._list_item_routes()

    def _list_item_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.CHAT, tag=TAG, query=OwnerQuery)
        yield route(
            method="GET",
            path=ONE + "/items",
            handler=self.list_items,
            summary="List what a session adds, keeps and leaves out",
            responses={200: SessionItemPage},
            errors=(NotFound,),
        )
        yield route(
            method="POST",
            path=ONE + "/items",
            handler=self.add_item,
            summary="Add a resource to a session, whatever its mode; creates the session",
            body=SessionItemBody,
            responses={201: SessionView},
            errors=(NotFound, Conflict, QuotaExceeded),
            conditional=True,
        )
        yield route(
            method="DELETE",
            path=ITEM,
            handler=self.remove_item,
            summary="Remove a resource from a session; what is always there stays away from now on",
            responses={200: SessionView},
            errors=(NotFound, Conflict),
            conditional=True,
        )
        yield route(
            method="POST",
            path=ITEM + "/restore",
            handler=self.restore_item,
            summary="Forget that a resource was removed",
            responses={200: SessionView},
            errors=(NotFound, Conflict),
            conditional=True,
        )

    async def list(self, call: ApiCall[SessionListQuery, None]) -> ApiReply:
        page = await self.manager.list_page(call.principal, call.query.choice, call.query.skip, call.query.take)
        return ApiReply(build_page([build_view(record) for record in page.records], page.total))

    async def get(self, call: ApiCall[OwnerQuery, None]) -> ApiReply:
        record = await self.manager.get(self._make_key(call))
        return reply_if_changed(call, build_view(record), record.tag)

    async def configure(self, call: ApiCall[OwnerQuery, SessionBody]) -> ApiReply:
        settings = parse_settings(call.body.settings)
        key, content, condition = self._make_key(call), call.body.content, make_condition(call)
        return reply_changed(await self.manager.configure(key, settings, content, condition))

    async def delete(self, call: ApiCall[OwnerQuery, None]) -> ApiReply:
        await self.manager.delete(self._make_key(call), make_condition(call))
        return reply_empty()

    async def list_items(self, call: ApiCall[OwnerQuery, None]) -> ApiReply:
        record = await self.manager.get(self._make_key(call))
        items = [build_item_view(item) for item in self.manager.list_items(call.principal, record)]
        return ApiReply(build_page(items, len(items)))

    async def add_item(self, call: ApiCall[OwnerQuery, SessionItemBody]) -> ApiReply:
        record = await self.manager.add_item(call.principal, self._make_key(call), call.body.id, make_condition(call))
        return reply_created(f"/sessions/{record.key.id}/items/{call.body.id}", build_view(record), record.tag)

    async def remove_item(self, call: ApiCall[OwnerQuery, None]) -> ApiReply:
        key, condition = self._make_key(call), make_condition(call)
        return reply_changed(await self.manager.remove_item(call.principal, key, name_item(call), condition))

    async def restore_item(self, call: ApiCall[OwnerQuery, None]) -> ApiReply:
        key, condition = self._make_key(call), make_condition(call)
        return reply_changed(await self.manager.restore_item(key, name_item(call), condition))

    def _make_key(self, call: ApiCall[OwnerQuery, Any]) -> SessionKey:
        return self.manager.make_key(call.principal, call.query.choice, call.path["session"])


def make_condition(call: ApiCall[OwnerQuery, Any]) -> SessionCondition:
    return SessionCondition(call.if_match, call.only_new)


def reply_changed(record: SessionRecord) -> ApiReply:
    return ApiReply(build_view(record), etag=record.tag)


def name_item(call: ApiCall[Any, Any]) -> str:
    return f"{call.path['context']}/{call.path['resource']}"


def parse_settings(body: SessionSettingsBody) -> SessionSettings:
    return SessionSettings(
        inject=body.inject,
        budget=body.budget,
        selection=SelectionSettings.from_data(body.selection.model_dump()),
        placement=body.placement,
        max_turns=body.max_turns,
        retain=body.retain,
        announce=body.announce,
        defaults=ModelDefaults(body.model, body.temperature, body.top_p, body.max_tokens),
        tool_permission=body.tool_permission,
    )


def build_settings(settings: SessionSettings) -> SessionSettingsBody:
    defaults = settings.defaults
    return SessionSettingsBody(
        inject=settings.inject,
        budget=settings.budget,
        selection=SelectionBody.model_validate(settings.selection.to_data()),
        placement=settings.placement,
        max_turns=settings.max_turns,
        retain=settings.retain,
        announce=settings.announce,
        tool_permission=settings.tool_permission,
        model=defaults.model,
        temperature=defaults.temperature,
        top_p=defaults.top_p,
        max_tokens=defaults.max_tokens,
    )


def build_view(record: SessionRecord) -> SessionView:
    key, session = record.key, record.session
    return SessionView(
        id=key.id,
        principal=key.principal,
        user=key.user or None,
        content=session.content,
        added=list(session.added),
        removed=list(session.removed),
        retained=list(session.retained),
        sticky=[one.id for one in session.sticky],
        settings=build_settings(session.settings),
        version=record.version,
        created_at=to_datetime(record.created),
        updated_at=to_datetime(record.updated),
    )


def build_item_view(item: SessionItem) -> SessionItemView:
    resource = item.resource
    return SessionItemView(
        id=item.id,
        state=item.state,
        name=None if resource is None else resource.name,
        type=None if resource is None else resource.type,
        mode=None if resource is None else resource.mode,
    )
