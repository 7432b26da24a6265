"""The shape of entities, relationships and axioms in policy files, in the store and in the management API."""

import re
from hashlib import sha256
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from gateway.domain.knowledge import (
    AXIOMS,
    ENTITIES,
    RELATIONSHIPS,
    Axiom,
    Entity,
    KnowledgeItem,
    PropertyValue,
    Relationship,
)
from gateway.policies.shapes import Shape, Strings, find_reader_fault

KNOWLEDGE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}")
ID_PATTERN = f"^{KNOWLEDGE_ID.pattern}$"
MOST_READERS, MOST_PROPERTIES, MOST_VALUES, MOST_ALIASES, MOST_TYPES = 100, 50, 50, 20, 50


def find_knowledge_id_fault(identity: str) -> str | None:
    """What is wrong with the id of an item, or None."""
    if KNOWLEDGE_ID.fullmatch(identity):
        return None
    return "an id is 1 to 128 letters, digits and _ . : @ -, and begins with a letter or digit"


def _check_readers(names: list[str]) -> list[str]:
    for name in names:
        if fault := find_reader_fault(name):
            raise ValueError(fault)
    return names


KnowledgeId = Annotated[str, Field(pattern=ID_PATTERN)]
Word = Annotated[str, Field(min_length=1, max_length=64, pattern=r"\S")]
ShortText = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
PropertyText = Annotated[StrictStr, Field(max_length=4000)]
Scalar = PropertyText | StrictInt | StrictFloat | StrictBool | None
Properties = Annotated[
    dict[Word, Scalar | Annotated[list[Scalar], Field(max_length=MOST_VALUES)]], Field(max_length=MOST_PROPERTIES)
]
Readers = Annotated[Strings, Field(max_length=MOST_READERS), AfterValidator(_check_readers)]


class EntityShape(Shape):
    """An entity without its id."""

    type: Word
    name: ShortText
    aliases: Annotated[list[ShortText], Field(max_length=MOST_ALIASES)] = Field(default_factory=list)
    properties: Properties = Field(default_factory=dict, description="The most important first.")
    readers: Readers = Field(default_factory=list, description="Who may read it; empty: everyone.")


class RelationshipShape(Shape):
    """A relationship without its id."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)

    source: KnowledgeId = Field(alias="from", description="The id of an entity.")
    type: Word
    target: KnowledgeId = Field(alias="to", description="The id of an entity.")
    properties: Properties = Field(default_factory=dict)


class AxiomShape(Shape):
    """An axiom without its id."""

    types: Annotated[list[Word], Field(min_length=1, max_length=MOST_TYPES)] = Field(
        description="The types of entities that it holds for."
    )
    text: Annotated[str, Field(min_length=1, max_length=4000, pattern=r"\S")]
    readers: Readers = Field(default_factory=list, description="Who may read it; empty: everyone.")


KnowledgeShape = EntityShape | RelationshipShape | AxiomShape
KNOWLEDGE_SHAPES: dict[str, type[EntityShape] | type[RelationshipShape] | type[AxiomShape]] = {
    ENTITIES: EntityShape,
    RELATIONSHIPS: RelationshipShape,
    AXIOMS: AxiomShape,
}


def make_item(identity: str, shape: KnowledgeShape) -> KnowledgeItem:
    """The item that a shape describes."""
    if isinstance(shape, EntityShape):
        return Entity(
            identity, shape.type, shape.name, tuple(shape.aliases), _own(shape.properties), tuple(shape.readers)
        )
    if isinstance(shape, RelationshipShape):
        return Relationship(identity, shape.type, shape.source, shape.target, _own(shape.properties))
    return Axiom(identity, tuple(dict.fromkeys(shape.types)), shape.text, tuple(shape.readers))


def dump_item(item: KnowledgeItem) -> dict[str, Any]:
    """An item as it is stored and shown, without its id; what says nothing is left out."""
    if isinstance(item, Entity):
        said: dict[str, Any] = {"type": item.type, "name": item.name, "aliases": list(item.aliases)}
        said |= {"properties": dict(item.properties), "readers": list(item.readers)}
    elif isinstance(item, Relationship):
        said = {"from": item.source, "type": item.type, "to": item.target, "properties": dict(item.properties)}
    else:
        said = {"types": list(item.types), "text": item.text, "readers": list(item.readers)}
    return {name: value for name, value in said.items() if value not in ([], {})}


def make_relationship_id(source: str, kind: str, target: str) -> str:
    """The id of a relationship that was given none: the same two entities and type have the same one."""
    return "r-" + sha256("\0".join((source, kind, target)).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _own(properties: dict[str, Any]) -> dict[str, PropertyValue]:
    return dict(properties)
