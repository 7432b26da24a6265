"""The graph of one workspace at one moment: it is replaced, never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from heapq import merge
from typing import TYPE_CHECKING

import msgspec

from gateway.domain.knowledge import Axiom, Entity, KnowledgeSet, Relationship
from gateway.domain.principal import may_read

if TYPE_CHECKING:
    from gateway.knowledge.entity_index import EntityIndex

LOOKED_UP = 10  # entities whose relationships are looked up, the best
MOST_RELATIONSHIPS = 200  # of one fragment
MOST_AXIOMS = 100

Pairs = dict[tuple[str, str], list[str]]  # ids of entities, from and to → ids of their relationships


class KnowledgeGraph(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Everything that one workspace knows: the items of the files and its own."""

    items: KnowledgeSet
    pairs: Pairs = msgspec.field(default_factory=dict)
    index: EntityIndex | None = None  # None: there are no entities

    def __bool__(self) -> bool:
        return bool(self.items)

    @cached_property
    def ordered_ids(self) -> Mapping[str, tuple[str, ...]]:
        """The ids of each kind, in the order in which lists show them."""
        entities, relationships = self.items.entities, self.items.relationships
        return {
            "entities": tuple(sorted(entities, key=lambda one: (entities[one].name.casefold(), one))),
            "relationships": tuple(
                sorted(
                    relationships,
                    key=lambda one: (
                        relationships[one].source,
                        relationships[one].type,
                        relationships[one].target,
                        one,
                    ),
                )
            ),
            "axioms": tuple(sorted(self.items.axioms)),
        }

    def list_relationships(self, selected: Sequence[Entity], depth: int) -> list[Relationship]:
        """The relationships between selected entities, as far as they can be reached from the first ones.

        `depth` counts the steps; each lookup is a pair of ids, so that an entity with many neighbours costs no more.
        """
        found: dict[str, Relationship] = {}
        pairs, ids = self.pairs, [one.id for one in selected]
        frontier = ids[:LOOKED_UP]
        reached = set(frontier)
        for _ in range(depth):
            following: list[str] = []
            for here in frontier:
                for there in ids:
                    if (here, there) not in pairs and (there, here) not in pairs:
                        continue
                    between = self._list_between(here, there)
                    found.update((one, self.items.relationships[one]) for one in between)
                    if there not in reached:
                        reached.add(there)
                        following.append(there)
                if len(found) >= MOST_RELATIONSHIPS:
                    return sort_relationships(found.values(), selected)[:MOST_RELATIONSHIPS]
            frontier = following
        return sort_relationships(found.values(), selected)

    def _list_between(self, one: str, other: str) -> Sequence[str]:
        """The relationships of two entities in either direction."""
        there, back = self.pairs.get((one, other), ()), self.pairs.get((other, one), ())
        return [*there[:MOST_RELATIONSHIPS], *back[:MOST_RELATIONSHIPS]]

    def list_axioms(self, types: Iterable[str], readers: frozenset[str]) -> list[Axiom]:
        """The axioms that hold for some types, each once, by id."""
        lists = [self._axioms_by_type.get(name, ()) for name in {name.casefold() for name in types}]
        found: dict[str, Axiom] = {}
        for one in merge(*lists, key=lambda one: one.id):
            if may_read(readers, one.readers):
                found[one.id] = one
                if len(found) == MOST_AXIOMS:
                    break
        return list(found.values())

    @cached_property
    def _axioms_by_type(self) -> Mapping[str, Sequence[Axiom]]:
        """By the names of types in lower case, each in the order of ids."""
        found: dict[str, list[Axiom]] = {}
        for one in sorted(self.items.axioms.values(), key=lambda one: one.id):
            for name in {name.casefold() for name in one.types}:
                found.setdefault(name, []).append(one)
        return found


EMPTY_GRAPH = KnowledgeGraph(KnowledgeSet())


def sort_relationships(found: Iterable[Relationship], selected: Sequence[Entity]) -> list[Relationship]:
    """By the rank of the entities that they connect, so that shorter fragments have the beginning of longer ones."""
    rank = {one.id: place for place, one in enumerate(selected)}
    ends = {one.id: sorted((rank[one.source], rank[one.target])) for one in found}
    return sorted(found, key=lambda one: (ends[one.id][1], ends[one.id][0], one.type, one.id))


def build_graph(files: KnowledgeSet, stored: KnowledgeSet) -> KnowledgeGraph:
    """The graph of files and store; an id that a file defines is the file's."""
    entities: dict[str, Entity] = {**stored.entities, **files.entities}
    relationships: dict[str, Relationship] = {**stored.relationships, **files.relationships}
    items = KnowledgeSet(entities, relationships, {**stored.axioms, **files.axioms}, files.places)
    pairs: Pairs = {}
    for one in relationships.values():
        pairs.setdefault((one.source, one.target), []).append(one.id)
    return KnowledgeGraph(items, pairs, _build_index(entities))


def revise_graph(
    graph: KnowledgeGraph, files: KnowledgeSet, stored: KnowledgeSet, changed: Mapping[str, frozenset[str]]
) -> KnowledgeGraph:
    """The same as `build_graph` after few stored items, by kind and id, have changed."""
    entities, relationships = dict(graph.items.entities), dict(graph.items.relationships)
    pairs = dict(graph.pairs)
    for identity in changed.get("relationships", frozenset()) - files.relationships.keys():
        former = relationships.pop(identity, None)
        if former is not None:
            _remove_pair(pairs, former)
        current = stored.relationships.get(identity)
        if current is not None:
            relationships[identity] = current
            _add_pair(pairs, current)
    touched = changed.get("entities", frozenset()) - files.entities.keys()
    for identity in touched:
        entity = stored.entities.get(identity)
        if entity is None:
            entities.pop(identity, None)
        else:
            entities[identity] = entity
    index = graph.index
    if touched:
        known = index.revise({one: stored.entities.get(one) for one in touched}) if index is not None else None
        index = known if known is not None and known.entities else _build_index(entities)
    items = KnowledgeSet(entities, relationships, {**stored.axioms, **files.axioms}, files.places)
    return KnowledgeGraph(items, pairs, index)


def _build_index(entities: Mapping[str, Entity]) -> EntityIndex | None:
    if not entities:
        return None
    from gateway.knowledge.entity_index import EntityIndex

    return EntityIndex.build(list(entities.values()))


def _add_pair(pairs: Pairs, one: Relationship) -> None:
    ends = (one.source, one.target)
    pairs[ends] = [*pairs.get(ends, ()), one.id]  # a new list: the former graph still serves


def _remove_pair(pairs: Pairs, one: Relationship) -> None:
    ends = (one.source, one.target)
    left = [other for other in pairs.get(ends, ()) if other != one.id]
    if left:
        pairs[ends] = left
    else:
        pairs.pop(ends, None)
