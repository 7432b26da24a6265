"""The knowledge graph: entities, the relationships between them, and axioms that hold for types of entities."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

ENTITIES, RELATIONSHIPS, AXIOMS = "entities", "relationships", "axioms"
KNOWLEDGE_KINDS = (ENTITIES, RELATIONSHIPS, AXIOMS)

PropertyScalar: TypeAlias = str | int | float | bool | None
PropertyValue: TypeAlias = PropertyScalar | list[PropertyScalar]


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that has a name: a product, an endpoint, a term, a person."""

    id: str
    type: str
    name: str
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)  # the most important first
    readers: tuple[str, ...] = ()  # empty: everyone


@dataclass(frozen=True, slots=True)
class Relationship:
    """How one entity relates to another; seen only by those who may read both."""

    id: str
    type: str
    source: str  # the id of an entity
    target: str
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Axiom:
    """A rule that holds for every entity of some types."""

    id: str
    types: tuple[str, ...]
    text: str
    readers: tuple[str, ...] = ()


KnowledgeItem: TypeAlias = Entity | Relationship | Axiom


@dataclass(frozen=True, slots=True, eq=False)
class KnowledgeSet:
    """Items by kind and id, and where those from files stand."""

    entities: Mapping[str, Entity] = field(default_factory=dict)
    relationships: Mapping[str, Relationship] = field(default_factory=dict)
    axioms: Mapping[str, Axiom] = field(default_factory=dict)
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)  # kind and id → "graph.yaml:12"

    def __bool__(self) -> bool:
        return bool(self.entities or self.axioms)


NO_KNOWLEDGE = KnowledgeSet()
