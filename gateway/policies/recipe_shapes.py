"""The shape of recipes in policy files, and what they become."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool

from gateway.domain.agent import Budget
from gateway.domain.recipe import ContentNeed, Detail, LayerSource, NodeFilter, Recipe, RecipeLayer, World
from gateway.policies.shapes import BudgetField, BudgetShape, Shape, Strings, Text, Truncation, Whole

MAX_LAYERS = 20
Where = Annotated[dict[Text, Strings], Field(max_length=10)]  # property → values


def _to_layer(value: Any) -> Any:
    return {"take": value} if isinstance(value, str) else value


def _to_world(value: Any) -> Any:
    return {"detail": value} if isinstance(value, str) else value


class LayerShape(Shape):
    take: LayerSource
    types: Strings = Field(default_factory=list)
    where: Where = Field(default_factory=dict)
    links: Strings = Field(default_factory=list)
    detail: Detail = Detail.FULL
    show: Strings = Field(default_factory=list)
    characters: Whole | None = Field(None, ge=1, le=1_000_000)
    limit: Whole = Field(50, ge=1, le=500)
    truncate: Truncation = "extractive"
    required: StrictBool = False


class WorldShape(Shape):
    detail: Detail = Detail.FULL
    types: Strings = Field(default_factory=list)
    where: dict[Text, Where] = Field(default_factory=dict, max_length=50)  # by type
    show: Strings = Field(default_factory=lambda: ["role", "status"])
    characters: Whole = Field(600, ge=1, le=1_000_000)
    limit: Whole = Field(200, ge=1, le=1_000)


# A name may stand for a layer or a world of which nothing else is said.
LayerField = Annotated[LayerShape, BeforeValidator(_to_layer, json_schema_input_type=LayerShape | LayerSource)]
WorldField = Annotated[WorldShape, BeforeValidator(_to_world, json_schema_input_type=WorldShape | Detail)]


class RecipeShape(Shape):
    name: Text | None = None
    description: str = ""
    content: ContentNeed = ContentNeed.OPTIONAL
    types: Strings = Field(default_factory=list)
    needs: Strings = Field(default_factory=list)
    root: Text | None = None
    layers: list[LayerField] = Field(default_factory=list, max_length=MAX_LAYERS)
    world: WorldField | None = None
    collectors: Strings = Field(default_factory=list)
    budget: BudgetField = BudgetShape.model_construct()


def make_recipe(alias: str, name: str, shape: RecipeShape) -> Recipe:
    """A recipe as requests use it."""
    shares = shape.budget.shares
    reserved = tuple(shares.model_dump(exclude_none=True).items()) if shares is not None else ()
    return Recipe(
        alias=alias,
        name=name,
        description=shape.description,
        content=shape.content,
        types=tuple(shape.types),
        needs=tuple(shape.needs),
        root=shape.root,
        layers=tuple(map(_make_layer, shape.layers)),
        world=_make_world(shape.world) if shape.world is not None else None,
        collectors=tuple(shape.collectors),
        budget=Budget(shape.budget.total, shape.budget.max, reserved),
    )


def _make_layer(shape: LayerShape) -> RecipeLayer:
    return RecipeLayer(
        take=shape.take,
        nodes=_make_filter(shape.types, shape.where),
        links=tuple(shape.links),
        detail=shape.detail,
        show=tuple(shape.show),
        characters=shape.characters,
        limit=shape.limit,
        truncate=shape.truncate,
        required=shape.required,
    )


def _make_world(shape: WorldShape) -> World:
    where = tuple((type, _make_filter([type], own)) for type, own in shape.where.items())
    return World(shape.detail, tuple(shape.types), where, tuple(shape.show), shape.characters, shape.limit)


def _make_filter(types: list[str], where: dict[str, list[str]]) -> NodeFilter:
    return NodeFilter(tuple(types), tuple((name, tuple(values)) for name, values in where.items()))
