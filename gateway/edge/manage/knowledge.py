"""`/knowledge`: entities, relationships and axioms of the knowledge graph."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from gateway.control.knowledge import ITEM_NAMES, KnowledgeFilter, KnowledgeInfo, KnowledgeManager
from gateway.domain.knowledge import AXIOMS, ENTITIES, RELATIONSHIPS
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
from gateway.edge.manage.routes import WRITE_ERRORS, ApiRoute
from gateway.edge.manage.views import format_timestamp
from gateway.errors import Conflict, FieldError, InsufficientStorage, InvalidObject, NotFound, QuotaExceeded
from gateway.policies.knowledge_shapes import (
    KNOWLEDGE_SHAPES,
    AxiomShape,
    EntityShape,
    KnowledgeId,
    RelationshipShape,
    dump_item,
)

TAG = "knowledge"


class ItemQuery(ListQuery):
    """Which items to return."""

    type: str | None = Field(None, max_length=64, description="Only items of this type; axioms for it.")


class RelationshipQuery(ItemQuery):
    """Which relationships to return."""

    entity: str | None = Field(None, max_length=128, description="Only relationships of this entity.")


class ItemMetadata(BaseModel):
    """What a reply says about every item in addition to its own fields."""

    id: str
    source: Literal["store", "file"] = Field(description="Items from files are read-only.")
    file: str | None = Field(description="File and line of an item from a policy file.")
    version: int = Field(description="0 for an item from a file.")
    updated_at: datetime | None
    updated_by: str | None


class IgnoredItemMetadata(BaseModel):
    """The same fields in a request: they may be sent back and are ignored; an id must be the same."""

    id: KnowledgeId | None = None
    source: Any = None
    file: Any = None
    version: Any = None
    updated_at: Any = None
    updated_by: Any = None


class EntityItem(EntityShape, ItemMetadata):
    """An entity."""


class EntityPage(Page[EntityItem]):
    """A page of the list of entities, by name."""


class EntityBody(EntityShape, IgnoredItemMetadata):
    """An entity that replaces another."""


class NewEntity(EntityBody):
    """An entity to be created."""

    id: KnowledgeId


class RelationshipItem(BaseModel):
    """A relationship."""

    model_config = ConfigDict(populate_by_name=False)

    id: str
    source_id: str = Field(alias="from")
    type: str
    target_id: str = Field(alias="to")
    properties: dict[str, Any]
    source: Literal["store", "file"]
    file: str | None
    version: int
    updated_at: datetime | None
    updated_by: str | None


class RelationshipPage(Page[RelationshipItem]):
    """A page of the list of relationships."""


class RelationshipBody(RelationshipShape):
    """A relationship that replaces another, or is to be created."""

    id: KnowledgeId | None = Field(None, description="Absent: made of the two entities and the type.")
    file: Any = None
    version: Any = None
    updated_at: Any = None
    updated_by: Any = None


class AxiomItem(AxiomShape, ItemMetadata):
    """An axiom."""


class AxiomPage(Page[AxiomItem]):
    """A page of the list of axioms."""


class AxiomBody(AxiomShape, IgnoredItemMetadata):
    """An axiom that replaces another."""


class NewAxiom(AxiomBody):
    """An axiom to be created."""

    id: KnowledgeId


class ItemModels(msgspec.Struct, frozen=True):
    """The models of a kind of item."""

    view: type[BaseModel]
    page: type[BaseModel]
    body: type[BaseModel]
    new: type[BaseModel]
    query: type[ItemQuery] = ItemQuery


MODELS = {
    ENTITIES: ItemModels(EntityItem, EntityPage, EntityBody, NewEntity),
    RELATIONSHIPS: ItemModels(
        RelationshipItem, RelationshipPage, RelationshipBody, RelationshipBody, RelationshipQuery
    ),
    AXIOMS: ItemModels(AxiomItem, AxiomPage, AxiomBody, NewAxiom),
}


class KnowledgeRoutes(msgspec.Struct, frozen=True):
    """The items of one kind below `/knowledge`."""

    kind: str
    manager: KnowledgeManager

    def list_routes(self) -> Iterator[ApiRoute]:
        name, models = ITEM_NAMES[self.kind], MODELS[self.kind]
        every = f"/knowledge/{self.kind}"
        single, article = f"{every}/{{{name}}}", "an" if name[0] in "ae" else "a"
        route = partial(ApiRoute, role=Role.EDITOR, tag=TAG)
        yield route(
            method="GET",
            path=every,
            handler=self.list,
            summary=f"List the {self.kind}",
            query=models.query,
            responses={200: models.page},
        )
        yield route(
            method="POST",
            path=every,
            handler=self.create,
            summary=f"Create {article} {name}",
            body=models.new,
            responses={201: models.view},
            errors=(Conflict, InvalidObject, InsufficientStorage, QuotaExceeded),
        )
        yield route(
            method="GET",
            path=single,
            handler=self.get,
            summary=f"Get {article} {name}",
            responses={200: models.view},
            errors=(NotFound,),
            conditional=True,
        )
        write = partial(route, path=single, errors=(*WRITE_ERRORS, QuotaExceeded), conditional=True)
        yield write(
            method="PUT",
            handler=self.replace,
            summary=f"Replace {article} {name}",
            body=models.body,
            responses={200: models.view},
        )
        also = ", and its relationships" if self.kind == ENTITIES else ""
        yield write(
            method="DELETE",
            handler=self.delete,
            summary=f"Delete {article} {name}{also}",
            responses={204: None},
        )

    async def list(self, call: ApiCall[ItemQuery, None]) -> ApiReply:
        query = call.query
        entity = query.entity if isinstance(query, RelationshipQuery) else None
        wanted = KnowledgeFilter(query.filter, query.type, entity)
        page = await self.manager.list_page(call.workspace, self.kind, wanted, query.skip, query.take)
        return ApiReply(build_page([render_item(one) for one in page.items], page.total))

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        one = self.manager.get(call.workspace, self.kind, self._get_id(call))
        return reply_if_changed(call, render_item(one), one.tag)

    async def create(self, call: ApiCall[None, Any]) -> ApiReply:
        one = await self.manager.create(call.principal, self.kind, call.body.id, self._get_shape(call.body))
        return reply_created(f"/knowledge/{self.kind}/{one.item.id}", render_item(one), one.tag)

    async def replace(self, call: ApiCall[None, Any]) -> ApiReply:
        identity = self._get_id(call)
        if call.body.id not in (None, identity):
            raise InvalidObject("Validation failed.", [FieldError("/id", f"cannot be changed; this is {identity!r}")])
        allow_replacing(call, f"{self.kind}/{self.manager.get(call.workspace, self.kind, identity).item.id}")
        shape = self._get_shape(call.body)
        one = await self.manager.replace(call.principal, self.kind, identity, shape, call.if_match)
        return ApiReply(render_item(one), etag=one.tag)

    async def delete(self, call: ApiCall[None, None]) -> ApiReply:
        await self.manager.delete(call.principal, self.kind, self._get_id(call), call.if_match)
        return reply_empty()

    def _get_id(self, call: ApiCall[Any, Any]) -> str:
        return call.path[ITEM_NAMES[self.kind]]

    def _get_shape(self, body: BaseModel) -> Any:
        """The body without what only replies have."""
        shape = KNOWLEDGE_SHAPES[self.kind]
        return shape.model_validate(body.model_dump(by_alias=True, include=set(shape.model_fields)))


def build_knowledge_routes(manager: KnowledgeManager) -> tuple[KnowledgeRoutes, ...]:
    return tuple(KnowledgeRoutes(kind, manager) for kind in MODELS)


def render_item(one: KnowledgeInfo) -> dict[str, Any]:
    """An item with all its fields, defaults included."""
    shape = KNOWLEDGE_SHAPES[one.kind].model_validate(dump_item(one.item))
    return {
        "id": one.item.id,
        **shape.model_dump(by_alias=True),
        "source": "file" if one.stored is None else "store",
        "file": one.file,
        "version": 0 if one.stored is None else one.stored.version,
        "updated_at": None if one.stored is None else format_timestamp(one.stored.at),
        "updated_by": None if one.stored is None else one.stored.by,
    }
