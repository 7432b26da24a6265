"""`/resource-types`: the types a resource may have, with the schemas from which editors can be generated."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, Field

from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, ok
from gateway.edge.manage.routes import ApiRoute, ListQuery
from gateway.errors import NotFound
from gateway.resources.base import ResourceType


class Types(Protocol):
    """The registry of resource types."""

    def get(self, alias: str) -> ResourceType | None:
        """The type of that alias, or None."""
        ...

    def aliases(self) -> tuple[str, ...]:
        """All known aliases."""
        ...


class TypeView(BaseModel):
    """A resource type."""

    alias: str
    name: str
    description: str
    key: str | None = Field(description="Resources of one type and key exclude each other.")
    data: dict[str, Any] = Field(description="JSON Schema of a resource's data.")


class TypePage(BaseModel):
    """A part of the list of resource types."""

    items: list[TypeView]
    total: int


@dataclass(frozen=True, slots=True)
class ResourceTypes:
    """The types as resources of the API. They come from code and plugins, so they can only be read."""

    types: Types

    def routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/resource-types",
            handler=self.list,
            role=Role.EDITOR,
            tag="resource-types",
            summary="List the resource types",
            query=ListQuery,
            responses={200: TypePage},
        )
        yield ApiRoute(
            method="GET",
            path="/resource-types/{type}",
            handler=self.get,
            role=Role.EDITOR,
            tag="resource-types",
            summary="One resource type",
            responses={200: TypeView},
            errors=(NotFound,),
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        every = [_view(kind) for alias in sorted(self.types.aliases()) if (kind := self.types.get(alias))]
        views = [view for view in every if _fits(view, call.query.filter)]
        page = views[call.query.skip :][: call.query.take]
        return ok(TypePage(items=page, total=len(views)))

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        kind = self.types.get(call.path["type"])
        if kind is None:
            raise NotFound(f"There is no resource type {call.path['type']!r}.")
        return ok(_view(kind))


def _view(kind: ResourceType) -> TypeView:
    return TypeView(
        alias=kind.alias,
        name=kind.name,
        description=kind.description,
        key=kind.clash_key,
        data=kind.data.model_json_schema(),
    )


def _fits(view: TypeView, word: str) -> bool:
    return any(word.lower() in text.lower() for text in (view.alias, view.name, view.description))
