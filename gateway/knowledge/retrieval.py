"""From a question to a fragment: search, score, filter, relationships, axioms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gateway.domain.knowledge import Entity
from gateway.domain.principal import may_read
from gateway.knowledge.config import KnowledgeConfig
from gateway.knowledge.fragment import KnowledgeFragment
from gateway.knowledge.graph import KnowledgeGraph
from gateway.knowledge.matches import ScoredEntity, TypeFilter

if TYPE_CHECKING:
    from gateway.knowledge.entity_meaning import EntityMeaning

OVERFETCH = 3  # times as many entities are searched as may be selected
PRIORITIZED = 0.1  # added to the score of types that the request prefers
MOST_NAMED = 100  # entities that a request may name
QUICK_ENTITIES, QUICK_DEPTH = 30, 2  # of a fragment that is made on the event loop


class KnowledgeQuery(msgspec.Struct, frozen=True):
    """What is asked, by whom."""

    sentences: tuple[str, ...]
    readers: frozenset[str]
    include: frozenset[str] = frozenset()  # ids of entities that come first
    exclude: frozenset[str] = frozenset()
    prioritize_types: frozenset[str] = frozenset()  # in lower case


class RetrievedKnowledge(msgspec.Struct, frozen=True):
    """The fragment for a question; None: no entity is relevant."""

    fragment: KnowledgeFragment | None
    total: int = 0  # of the entities that match
    considered: int = 0


def retrieve(
    graph: KnowledgeGraph, query: KnowledgeQuery, config: KnowledgeConfig, meaning: EntityMeaning | None = None
) -> RetrievedKnowledge:
    """What the graph says about a question. Takes milliseconds of CPU: not on the event loop."""
    if graph.index is None:
        return RetrievedKnowledge(None)
    types = TypeFilter(config.include_types, config.exclude_types)
    limit = config.max_entities * OVERFETCH
    matches = graph.index.search(query.sentences, query.readers, types, limit, meaning, find_least(query, config))
    named = list_named(graph, query, types)
    known = {one.entity.id for one in named}
    scored = [*named, *(prioritize(one, query) for one in matches.found if one.entity.id not in known)]
    selected = select_entities(scored, query, config)
    total = matches.total + len(known - {one.entity.id for one in matches.found})
    if not selected:
        return RetrievedKnowledge(None, total, matches.visible)
    entities = [one.entity for one in selected]
    relationships = graph.list_relationships(entities, config.depth) if config.relationships else []
    axioms = graph.list_axioms((one.type for one in entities), query.readers) if config.axioms else []
    fragment = KnowledgeFragment(tuple(selected), tuple(relationships), tuple(axioms), config)
    return RetrievedKnowledge(fragment, total, matches.visible)


def is_quick(graph: KnowledgeGraph, query: KnowledgeQuery, config: KnowledgeConfig) -> bool:
    """Whether `retrieve` takes about a millisecond, if nothing is compared by its meaning."""
    if graph.index is None:
        return True
    types = TypeFilter(config.include_types, config.exclude_types)
    few = config.max_entities <= QUICK_ENTITIES and config.depth <= QUICK_DEPTH and len(query.include) <= MOST_NAMED
    return few and graph.index.is_quick(query.sentences, query.readers, types)


def find_least(query: KnowledgeQuery, config: KnowledgeConfig) -> float:
    """The score below which an entity cannot be selected; 0 if the request names entities, which may be among them."""
    if query.include:
        return 0.0
    return config.min_score - (PRIORITIZED if query.prioritize_types else 0.0)


def select_entities(
    scored: Sequence[ScoredEntity], query: KnowledgeQuery, config: KnowledgeConfig
) -> list[ScoredEntity]:
    """The best of those that are relevant enough."""
    relevant = [one for one in scored if one.score >= config.min_score and one.entity.id not in query.exclude]
    return sorted(relevant, key=lambda one: (-one.score, one.entity.id))[: config.max_entities]


def list_named(graph: KnowledgeGraph, query: KnowledgeQuery, types: TypeFilter) -> list[ScoredEntity]:
    """The entities that the request names, as far as the caller may read them."""
    entities = graph.items.entities
    found = [entities[identity] for identity in sorted(query.include) if identity in entities]  # others are nodes
    permitted = [one for one in found if is_permitted(one, query, types)]
    return [ScoredEntity(one, 1.0) for one in permitted[:MOST_NAMED]]


def is_permitted(entity: Entity, query: KnowledgeQuery, types: TypeFilter) -> bool:
    return may_read(query.readers, entity.readers) and types.accepts(entity.type)


def prioritize(one: ScoredEntity, query: KnowledgeQuery) -> ScoredEntity:
    if one.entity.type.casefold() not in query.prioritize_types:
        return one
    return ScoredEntity(one.entity, round(min(1.0, one.score + PRIORITIZED), 4))
