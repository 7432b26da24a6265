"""Recipes: what a task needs to know, layer by layer."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from gateway.domain.agent import Budget

SELECTED = "selected"  # the role of what a user has chosen by hand


class ContentNeed(StrEnum):
    """Whether a task is about a node."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    NEVER = "never"  # whatever node the request names


class LayerSource(StrEnum):
    """Where a layer takes its items from."""

    BODY = "body"  # the text of the node
    OUTLINE = "outline"  # a property of the node
    PREVIOUS = "previous"  # the end of the sibling before it
    REFERENCES = "references"  # what the node links to by type, and what the request names by role
    RELATIONS = "relations"  # links among those
    NODES = "nodes"  # by type and properties
    SELECTED = "selected"  # what the user has chosen


class Detail(StrEnum):
    """How much of a node is shown."""

    FULL = "full"
    SUMMARY = "summary"  # a line: its title, and a few properties


class NodeFilter(msgspec.Struct, frozen=True):
    """Which nodes are meant."""

    types: tuple[str, ...] = ()  # empty: all
    where: tuple[tuple[str, tuple[str, ...]], ...] = ()  # property → the values that it may have

    def admits_type(self, type: str) -> bool:
        return not self.types or type in self.types

    def admits(self, properties: Mapping[str, Any]) -> bool:
        return all(any(one in values for one in _list_texts(properties.get(name))) for name, values in self.where)


def _list_texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in _list_texts(one)]
    if isinstance(value, bool):
        return [str(value).lower()]
    return [] if value is None else [str(value)]


class RecipeLayer(msgspec.Struct, frozen=True):
    """One layer of what a task needs; those that come first are served first."""

    take: LayerSource
    nodes: NodeFilter = NodeFilter()
    links: tuple[str, ...] = ()  # types of links, and roles of what the request names; empty: all of them
    detail: Detail = Detail.FULL
    show: tuple[str, ...] = ()  # properties in a summary; for `outline`: the one that holds it
    characters: int | None = None  # of each item
    limit: int = 50  # items
    truncate: str = "extractive"
    required: bool = False  # a context without it is not valid


class World(msgspec.Struct, frozen=True):
    """Everything that there is around a task, at moderate detail or as a list of names."""

    detail: Detail = Detail.FULL
    types: tuple[str, ...] = ()  # in this order; empty: all
    where: tuple[tuple[str, NodeFilter], ...] = ()  # by type, which of its nodes
    show: tuple[str, ...] = ("role", "status")
    characters: int = 600  # of each node
    limit: int = 200  # nodes


class Recipe(msgspec.Struct, frozen=True):
    """A task, and what it needs."""

    alias: str
    name: str
    description: str = ""
    content: ContentNeed = ContentNeed.OPTIONAL
    types: tuple[str, ...] = ()  # that the node may have; empty: any
    needs: tuple[str, ...] = ()  # roles that a request without a node has to name
    root: str | None = None  # id or path of the node below which nodes are looked for; None: the top of the node's tree
    layers: tuple[RecipeLayer, ...] = ()
    world: World | None = None
    collectors: tuple[str, ...] = ()  # of content that are asked too
    budget: Budget = msgspec.field(default_factory=Budget)
