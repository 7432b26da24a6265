"""The knowledge graph: entities, the relationships between them, and axioms that hold for types of entities."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

ENTITIES, RELATIONSHIPS, AXIOMS = "entities", "relationships", "axioms"
KNOWLEDGE_KINDS = (ENTITIES, RELATIONSHIPS, AXIOMS)

PropertyScalar: TypeAlias = str | int | float | bool | None
PropertyValue: TypeAlias = PropertyScalar | list[PropertyScalar]


class Entity(msgspec.Struct, frozen=True):
    """A thing that has a name: a product, an endpoint, a term, a person."""

    id: str
    type: str
    name: str
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, PropertyValue] = msgspec.field(default_factory=dict)  # the most important first
    readers: tuple[str, ...] = ()  # empty: everyone


class Relationship(msgspec.Struct, frozen=True):
    """How one entity relates to another; seen only by those who may read both."""

    id: str
    type: str
    source: str  # the id of an entity
    target: str
    properties: Mapping[str, PropertyValue] = msgspec.field(default_factory=dict)


class Axiom(msgspec.Struct, frozen=True):
    """A rule that holds for every entity of some types."""

    id: str
    types: tuple[str, ...]
    text: str
    readers: tuple[str, ...] = ()


KnowledgeItem: TypeAlias = Entity | Relationship | Axiom


class KnowledgeSet(msgspec.Struct, frozen=True, eq=False):
    """Items by kind and id, and where those from files stand."""

    entities: Mapping[str, Entity] = msgspec.field(default_factory=dict)
    relationships: Mapping[str, Relationship] = msgspec.field(default_factory=dict)
    axioms: Mapping[str, Axiom] = msgspec.field(default_factory=dict)
    places: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)  # kind and id → "graph.yaml:12"

    def __bool__(self) -> bool:
        return bool(self.entities or self.axioms)


NO_KNOWLEDGE = KnowledgeSet()
