"""`/resource-types`: the types of resources, with the JSON Schemas from which editors can be generated."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, Field

from gateway.domain.principal import Role
from gateway.domain.resource import Mode
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.paging import ListQuery, Page, paginate
from gateway.edge.manage.routes import ApiRoute
from gateway.edge.plugin_files import NO_ADDRESSES, PluginFiles
from gateway.errors import NotFound
from gateway.resources.base import ResourceType
from gateway.resources.registry import ResourceRegistry

T = TypeVar("T")


class ResourceTypeView(BaseModel):
    """A resource type."""

    alias: str
    name: str
    description: str
    key: str | None = Field(description="Resources with the same type and key exclude each other.")
    icon: str = Field(description="The name of an icon.")
    icon_address: str | None = Field(description="Of an icon that the type brings along, an SVG; instead of the name.")
    editor: str | None = Field(description="The address of a module whose default export is an element that edits it.")
    recommended_mode: Mode = Field(description="What suits most resources of this type; a hint for editors.")
    data: dict[str, Any] = Field(description="JSON Schema of a resource's data.")


class ResourceTypePage(Page[ResourceTypeView]):
    """A page of the list of resource types."""


class ResourceTypeRoutes(msgspec.Struct, frozen=True):
    """The resource types. They come from code and plugins, so they are read-only."""

    types: ResourceRegistry
    plugins: PluginFiles | None = None  # None: there is no console

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/resource-types",
            handler=self.list,
            role=Role.EDITOR,
            tag="resource-types",
            summary="List the resource types",
            query=ListQuery,
            responses={200: ResourceTypePage},
        )
        yield ApiRoute(
            method="GET",
            path="/resource-types/{type}",
            handler=self.get,
            role=Role.EDITOR,
            tag="resource-types",
            summary="Get a resource type",
            responses={200: ResourceTypeView},
            errors=(NotFound,),
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        every = [kind for alias in sorted(self.types.list_aliases()) if (kind := self.types.get(alias))]
        found = [kind for kind in every if call.query.accepts(kind.alias, kind.name, kind.description)]
        return ApiReply(await self._describe(lambda: paginate(found, call.query, self._build_view)))

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        kind = self.types.get(call.path["type"])
        if kind is None:
            raise NotFound(f"There is no resource type {call.path['type']!r}.")
        return ApiReply(await self._describe(lambda: self._build_view(kind)))

    async def _describe(self, build: Callable[[], T]) -> T:
        """What is built; in a thread if files of plug-ins may have to be read."""
        if self.plugins is None or self.plugins.is_empty:
            return build()
        return await asyncio.to_thread(build)

    def _build_view(self, kind: ResourceType) -> ResourceTypeView:
        addresses = NO_ADDRESSES if self.plugins is None else self.plugins.locate(kind.alias)
        return ResourceTypeView(
            alias=kind.alias,
            name=kind.name,
            description=kind.description,
            key=kind.conflict_key,
            icon=kind.icon,
            icon_address=addresses.icon,
            editor=addresses.editor,
            recommended_mode=kind.recommended_mode,
            data=kind.data.model_json_schema(),
        )
