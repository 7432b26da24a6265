"""The section `knowledge` of policy files: what all workspaces know."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from gateway.domain.knowledge import (
    ENTITIES,
    KNOWLEDGE_KINDS,
    NO_KNOWLEDGE,
    RELATIONSHIPS,
    Axiom,
    Entity,
    KnowledgeSet,
    Relationship,
)
from gateway.errors import Fault, quote
from gateway.policies.files import EntryLocation, PolicyEntry, split_entries
from gateway.policies.knowledge_shapes import (
    KNOWLEDGE_SHAPES,
    find_knowledge_id_fault,
    make_item,
    make_relationship_id,
)
from gateway.validation import format_suggestion


class KnowledgeReader:
    """Reads the sections of all files; what has not changed is not validated again."""

    def __init__(self) -> None:
        self._known: list[Any] = []  # the data of each section
        self._set = NO_KNOWLEDGE
        self._faults: list[Fault] = []

    def read(self, sections: list[PolicyEntry]) -> tuple[KnowledgeSet, list[Fault]]:
        """Every item of every file, and all faults."""
        data = [section.data for section in sections]
        if len(data) != len(self._known) or any(new is not old for new, old in zip(data, self._known, strict=True)):
            self._set, self._faults = compile_knowledge(sections)
            self._known = data
        return self._set, self._faults


class KnowledgeText(NamedTuple):
    """What some sections say, where each item stands in them, and every fault."""

    items: KnowledgeSet
    locations: Mapping[tuple[str, str], EntryLocation]  # by kind and id
    faults: list[Fault]


def compile_knowledge(sections: list[PolicyEntry]) -> tuple[KnowledgeSet, list[Fault]]:
    """The items of the sections of files. They relate only to each other: what workspaces store is not known here."""
    items, locations, faults = read_knowledge(sections)
    named = {key: str(location) for key, location in locations.items()}
    return replace(items, places=named), faults


def read_knowledge(sections: list[PolicyEntry], known: Collection[str] = ()) -> KnowledgeText:
    """The items of these sections; an id is used once per kind. `known`: ids of entities that are there besides."""
    faults: list[Fault] = []
    entities: dict[str, Entity] = {}
    relationships: dict[str, Relationship] = {}
    axioms: dict[str, Axiom] = {}
    places: dict[tuple[str, str], EntryLocation] = {}
    for kind, entry in _list_entries(sections, faults):
        wrong = find_knowledge_id_fault(entry.alias)
        if wrong is None and (kind, entry.alias) in places:
            wrong = f"{entry.alias!r} is already defined in {places[(kind, entry.alias)]}"
        if wrong is not None:
            faults.append(entry.location.fault(wrong))
            continue
        shape, own = entry.location.validate(KNOWLEDGE_SHAPES[kind], entry.data)
        faults += own
        places[(kind, entry.alias)] = entry.location
        match make_item(entry.alias, shape) if shape is not None else None:
            case Entity() as entity:
                entities[entity.id] = entity
            case Relationship() as relationship:
                relationships[relationship.id] = relationship
            case Axiom() as axiom:
                axioms[axiom.id] = axiom
    faults += _list_dangling(relationships, places, known)
    return KnowledgeText(KnowledgeSet(entities, relationships, axioms), places, faults)


def _list_entries(sections: list[PolicyEntry], faults: list[Fault]) -> Iterator[tuple[str, PolicyEntry]]:
    for section in sections:
        kinds, wrong = split_entries(section.data, section.location)
        faults += wrong
        for kind in kinds:
            if kind.alias not in KNOWLEDGE_KINDS:
                hint = format_suggestion(kind.alias, KNOWLEDGE_KINDS)
                faults.append(kind.location.fault(f"is not a known key{hint}"))
                continue
            entries, wrong = _split_list(kind) if kind.alias == RELATIONSHIPS else split_entries(*_locate(kind))
            faults += wrong
            yield from ((kind.alias, entry) for entry in entries)


def _locate(entry: PolicyEntry) -> tuple[Any, EntryLocation]:
    return entry.data, entry.location


def _split_list(section: PolicyEntry) -> tuple[list[PolicyEntry], list[Fault]]:
    """Relationships may be a list: nobody wants to think of ids for them."""
    if not isinstance(section.data, list):
        return split_entries(*_locate(section))
    entries = []
    for position, data in enumerate(section.data):
        named = data if isinstance(data, dict) else {}
        identity = make_relationship_id(*(str(named.get(key)) for key in ("from", "type", "to")))
        entries.append(PolicyEntry(identity, section.location / position, data))
    return entries, []


def _list_dangling(
    relationships: dict[str, Relationship], places: dict[tuple[str, str], EntryLocation], known: Collection[str]
) -> Iterator[Fault]:
    """Relationships of entities that are nowhere."""
    for one in relationships.values():
        for key, end in (("from", one.source), ("to", one.target)):
            if (ENTITIES, end) not in places and end not in known:
                yield (places[(RELATIONSHIPS, one.id)] / key).fault(f"there is no entity {quote(end)}")
