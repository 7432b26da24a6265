"""The knowledge collector: what the knowledge graph says about the question."""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
from msgspec.structs import replace
from pydantic import Field, StrictBool

from gateway.collectors.registry import SEMANTIC, CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings
from gateway.knowledge.config import (
    MAX_DEPTH,
    MAX_ENTITIES,
    MAX_TOKENS,
    KnowledgeConfig,
    KnowledgeFormat,
    build_config,
    find_preset,
)
from gateway.knowledge.entity_vectors import MeaningRule
from gateway.knowledge.retrieval import KnowledgeQuery, RetrievedKnowledge
from gateway.knowledge.service import KnowledgeService
from gateway.semantic.index.relevance import MOST_MEANT, PATIENCE, SIMILAR
from gateway.semantic.search.sentences import split_sentences

NOTHING_FOUND = "No entities found."
MOST_ITEMS, ITEM_CHARACTERS = 4, 4000  # of the caller's own texts that are part of the query

TypeNames = Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=100)]


class KnowledgeOptions(NoOptions):
    """What an agent's fragment may contain; absent: what its preset says."""

    preset: Literal["editor", "simplifier", "tuning", "summarizer", "copilot"] | None = None
    max_tokens: int | None = Field(None, ge=0, le=MAX_TOKENS)
    include_types: TypeNames | None = None
    exclude_types: TypeNames | None = None
    min_score: float | None = Field(None, ge=0, le=1)
    relationships: StrictBool | None = None
    depth: int | None = Field(None, ge=1, le=MAX_DEPTH)
    axioms: StrictBool | None = None
    max_entities: int | None = Field(None, ge=0, le=MAX_ENTITIES)
    format: KnowledgeFormat | None = None
    properties: StrictBool | None = None
    max_properties: int | None = Field(None, ge=0, le=50)
    semantic: StrictBool = True  # by their meaning too, and not by their words alone
    similar: float = Field(SIMILAR, ge=0, le=1)  # the cosine from which an entity is relevant
    max_embedded: int = Field(100_000, ge=0, le=1_000_000)  # entities that get vectors

    @cached_property
    def custom(self) -> dict[str, Any]:
        """What is said besides the preset and about meanings."""
        said = self.model_dump(exclude={"preset", "semantic", "similar", "max_embedded"}, exclude_none=True)
        for name in ("include_types", "exclude_types"):
            if name in said:
                said[name] = frozenset(one.casefold() for one in said[name])
        return said


class KnowledgeCollector(msgspec.Struct, frozen=True):
    """Searches the graph of the caller's workspace, within what the tier of its key allows."""

    name: ClassVar = "knowledge"
    category: ClassVar = Category.KNOWLEDGE
    priority: ClassVar = 30
    degraded: ClassVar = "graph"
    shared: ClassVar = False
    options: ClassVar = KnowledgeOptions

    knowledge: KnowledgeService

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls(parts.knowledge) if parts.knowledge is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return self.knowledge.may_have(scope.workspace)

    async def collect(self, order: CollectorOrder) -> Findings:
        """One item with the whole fragment, or a note that nothing was found."""
        config = self._build_config(order)
        query = build_query(order)
        if config is None or not (query.sentences or query.include):
            return NO_FINDINGS
        found, complete, failure = await self.knowledge.retrieve(order.workspace, query, config, build_rule(order))
        findings = make_findings(found)
        if not complete:
            return replace(findings, degraded=self.degraded, complete=False, note="")
        return findings if failure is None else replace(findings, degraded=SEMANTIC, complete=False)

    def _build_config(self, order: CollectorOrder) -> KnowledgeConfig | None:
        options: KnowledgeOptions = order.options
        agent = order.scope.agent
        preset = find_preset(options.preset, agent.alias if agent is not None else None)
        return build_config(preset, options.custom, self.knowledge.find_tier(order.principal))


def build_rule(order: CollectorOrder) -> MeaningRule | None:
    """How the meaning of the question counts; None: it does not."""
    options: KnowledgeOptions = order.options
    if not (options.semantic and options.max_embedded and order.query.sentences):
        return None
    meant = order.query.sentences[:MOST_MEANT]
    return MeaningRule(meant, options.similar, options.max_embedded, order.seconds * PATIENCE)


def build_query(order: CollectorOrder) -> KnowledgeQuery:
    """The question, the texts that the caller gives with it (a selection, for instance), and what it is about."""
    request = order.scope.request
    hints = request.hints
    return KnowledgeQuery(
        tuple(dict.fromkeys(_list_sentences(order))),
        order.readers,
        hints.include,
        hints.exclude,
        frozenset(name.casefold() for name in hints.prioritize_types),
    )


def _list_sentences(order: CollectorOrder) -> Iterator[str]:
    yield from order.query.sentences
    for item in order.scope.request.items[:MOST_ITEMS]:
        yield from split_sentences(item.text[:ITEM_CHARACTERS])
    if order.scope.node is not None:
        yield order.scope.node.title


def make_findings(found: RetrievedKnowledge) -> Findings:
    if found.fragment is None:
        return Findings(considered=found.considered, total_available=found.total, note=NOTHING_FOUND)
    return Findings(
        items=(found.fragment.to_item(),),
        considered=found.considered,
        total_available=found.total,
    )
