"""`/profiles`, `/agents`, `/prompts`, `/recipes`, and what they share with `/contexts`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from pydantic import Field

from gateway.control.object_bodies import kind_name
from gateway.control.objects import Objects, ObjectsOfKind, PolicyObject
from gateway.control.services import ControlServices
from gateway.control.sizes import SizeCheck
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, reply_created, reply_empty, reply_if_changed
from gateway.edge.manage.drafts import DraftRoutes
from gateway.edge.manage.paging import ListQuery, Page, paginate
from gateway.edge.manage.routes import WRITE_ERRORS, ApiRoute, RouteGroup
from gateway.edge.manage.versions import VersionRoutes, render_current
from gateway.edge.manage.views import (
    ALIAS,
    BRIEF_RESOURCES,
    IgnoredMetadata,
    ObjectMetadata,
    ObjectModels,
    render_briefly,
    render_object,
)
from gateway.errors import Conflict, InsufficientStorage, InvalidObject, NotFound
from gateway.policies.recipe_shapes import RecipeShape
from gateway.policies.shapes import AgentShape, ProfileShape, PromptShape


class ProfileView(ObjectMetadata, ProfileShape):
    """A profile."""

    name: str


class ProfilePage(Page[ProfileView]):
    """A page of the list of profiles."""


class ProfileBody(IgnoredMetadata, ProfileShape):
    """A profile that replaces another."""

    alias: str | None = None


class NewProfile(ProfileBody):
    """A profile to be created."""

    alias: str = ALIAS


class AgentView(ObjectMetadata, AgentShape):
    """An agent."""

    name: str


class AgentPage(Page[AgentView]):
    """A page of the list of agents."""


class AgentBody(IgnoredMetadata, AgentShape):
    """An agent that replaces another."""

    alias: str | None = None


class NewAgent(AgentBody):
    """An agent to be created."""

    alias: str = ALIAS


class PromptView(ObjectMetadata, PromptShape):
    """A prompt."""

    name: str


class PromptPage(Page[PromptView]):
    """A page of the list of prompts."""


class PromptBody(IgnoredMetadata, PromptShape):
    """A prompt that replaces another."""

    alias: str | None = None


class NewPrompt(PromptBody):
    """A prompt to be created."""

    alias: str = ALIAS


class RecipeView(ObjectMetadata, RecipeShape):
    """A recipe."""

    name: str


class RecipePage(Page[RecipeView]):
    """A page of the list of recipes."""


class RecipeBody(IgnoredMetadata, RecipeShape):
    """A recipe that replaces another."""

    alias: str | None = None


class NewRecipe(RecipeBody):
    """A recipe to be created."""

    alias: str = ALIAS


PROFILE_MODELS = ObjectModels(ProfileView, ProfilePage, ProfileBody, NewProfile)
AGENT_MODELS = ObjectModels(AgentView, AgentPage, AgentBody, NewAgent)
PROMPT_MODELS = ObjectModels(PromptView, PromptPage, PromptBody, NewPrompt)
RECIPE_MODELS = ObjectModels(RecipeView, RecipePage, RecipeBody, NewRecipe)


class BriefQuery(ListQuery):
    """Which page of a list to return, filtered by a word, with or without what is long."""

    brief: bool = Field(
        False, description=f"Each context has its first {BRIEF_RESOURCES} resources, without what they say."
    )


class ObjectRoutes(msgspec.Struct, frozen=True):
    """The objects of one kind below `/{kind}`; each is found by alias or id."""

    kind: str
    models: ObjectModels
    objects: Objects
    sizes: SizeCheck | None = None

    def list_routes(self) -> Iterator[ApiRoute]:
        one, models = kind_name(self.kind), self.models
        every, single = f"/{self.kind}", f"/{self.kind}/{{{one}}}"
        route = partial(ApiRoute, role=Role.EDITOR, tag=self.kind)
        yield route(
            method="GET",
            path=every,
            handler=self.list,
            summary=f"List the {self.kind}",
            query=BriefQuery if self.kind == "contexts" else ListQuery,
            responses={200: models.page},
        )
        yield route(
            method="POST",
            path=every,
            handler=self.create,
            summary=f"Create {_add_article(one)}",
            body=models.new,
            handler_validates=True,
            responses={201: models.view},
            errors=(Conflict, InvalidObject, InsufficientStorage),
        )
        yield route(
            method="GET",
            path=single,
            handler=self.get,
            summary=f"Get {_add_article(one)}",
            responses={200: models.view},
            errors=(NotFound,),
            conditional=True,
        )
        write = partial(route, path=single, errors=WRITE_ERRORS, conditional=True)
        yield write(
            method="PUT",
            handler=self.save,
            summary=f"Replace {_add_article(one)}, or create it",
            body=models.body,
            handler_validates=True,
            responses={200: models.view, 201: models.view},
        )
        yield write(
            method="DELETE",
            handler=self.delete,
            summary=f"Delete {_add_article(one)} that nothing refers to",
            responses={204: None},
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        found = self.objects.list_all(call.workspace, self.kind, call.query.filter)
        is_brief = isinstance(call.query, BriefQuery) and call.query.brief
        return ApiReply(paginate(found, call.query, render_briefly if is_brief else render_object))

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        one = self.objects.get(call.workspace, self.kind, self._get_name(call))
        return reply_if_changed(call, render_object(one), one.tag)

    async def create(self, call: ApiCall[None, Any]) -> ApiReply:
        return await self._reply(call, await self.objects.create(call.principal, self.kind, call.body), created=True)

    async def save(self, call: ApiCall[None, Any]) -> ApiReply:
        saved = await self.objects.save(
            call.principal, self.kind, self._get_name(call), call.body, call.if_match, only_new=call.only_new
        )
        return await self._reply(call, saved.object, created=saved.created)

    async def _reply(self, call: ApiCall[None, Any], one: PolicyObject, *, created: bool) -> ApiReply:
        shown = render_object(one)
        location = f"/{self.kind}/{one.alias}"
        reply = reply_created(location, shown, one.tag) if created else ApiReply(shown, etag=one.tag)
        return await add_size_warning(reply, self.sizes, call.workspace, self.kind, one.alias)

    async def delete(self, call: ApiCall[None, None]) -> ApiReply:
        await self.objects.delete(call.principal, self.kind, self._get_name(call), call.if_match)
        return reply_empty()

    def _get_name(self, call: ApiCall[Any, Any]) -> str:
        return call.path[kind_name(self.kind)]


async def add_size_warning(reply: ApiReply, sizes: SizeCheck | None, workspace: str, kind: str, alias: str) -> ApiReply:
    """The reply to a save, with a header if it makes a context larger than the budget of an agent."""
    if sizes is not None:
        reply.headers.update(await sizes.warn(workspace, kind, alias))
    return reply


def build_object_routes(kind: str, models: ObjectModels, services: ControlServices) -> tuple[RouteGroup, ...]:
    """The objects of a kind, their versions and their drafts."""
    path, versions = f"/{kind}/{{{kind_name(kind)}}}", services.versions(ObjectsOfKind(kind, services.objects))
    return (
        ObjectRoutes(kind, models, services.objects, services.sizes),
        VersionRoutes(kind, path, models.view, versions, render_current),
        DraftRoutes(kind, models, services.drafts),
    )


def _add_article(noun: str) -> str:
    return f"an {noun}" if noun.startswith("a") else f"a {noun}"
