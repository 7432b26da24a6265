"""The nodes collector: what a search finds relevant to the question among the nodes of a workspace."""

from collections.abc import Iterator
from typing import ClassVar, Self

import msgspec
from pydantic import Field

from gateway.collectors.nodes import ProposedNode, Truncation, is_about_content, make_items
from gateway.collectors.registry import SEMANTIC, CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings
from gateway.domain.content import ContentReader
from gateway.domain.intents import find_meant_types
from gateway.domain.search import NodeMatch, NodeQuery
from gateway.semantic.index.relevance import MOST_MEANT, PATIENCE, SIMILAR
from gateway.semantic.node_search import NodeSearch

MOST_SENTENCES = 3  # of a question that are searched for


class NodeSearchOptions(NoOptions):
    """How many nodes are proposed, and how well they have to match."""

    top_k: int = Field(15, ge=0, le=100, description="Nodes that are proposed.")
    min_score: float = Field(0.6, ge=0, le=1, description="How well they have to match.")
    excerpt: int = Field(800, ge=100, le=100_000, description="Characters of each node.")
    truncate: Truncation = Field("extractive", description="How a node is cut that does not fit.")
    semantic: bool = Field(True, description="By their meaning too, and not by their words alone.")
    similar: float = Field(SIMILAR, ge=0, le=1, description="The cosine at which a meaning scores .6.")
    max_embedded: int = Field(100_000, ge=0, le=1_000_000, description="Nodes that get vectors, the latest first.")
    always: bool = Field(False, description="For requests that name neither content nor a type, too.")


class NodeCollector(msgspec.Struct, frozen=True):
    """Searches for the question, for the title of the focus, and for the types that are meant."""

    name: ClassVar = "nodes"
    category: ClassVar = Category.SEMANTIC
    priority: ClassVar = 25
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = NodeSearchOptions

    content: ContentReader
    search: NodeSearch

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        if parts.content is None or parts.nodes is None:
            return None
        return cls(parts.content, parts.nodes)

    def applies(self, scope: CollectorScope) -> bool:
        return is_about_content(scope, self.name, scope.options.always)

    async def collect(self, order: CollectorOrder) -> Findings:
        options: NodeSearchOptions = order.options
        query = build_query(order, options)
        if not options.top_k or not (query.texts or query.types):
            return NO_FINDINGS
        tree, focus = order.snapshot.tree, None if order.scope.node is None else order.scope.node.id
        # The focus itself is found too.
        found = await self.search.find(order.workspace, order.snapshot, order.readers, query, options.top_k + 1)
        proposed = [
            ProposedNode(node, one.score, explain(one), options.excerpt, truncate=options.truncate)
            for one in found.matches
            if one.score >= options.min_score and one.id != focus and (node := tree.get(one.id)) is not None
        ]
        items, unread = await make_items(order, self.content, proposed[: options.top_k])
        truncated = not found.complete or len(proposed) > options.top_k
        degraded = None if found.failure is None else SEMANTIC
        return Findings(items, considered=found.total, truncated=truncated, unread=unread, degraded=degraded)


def build_query(order: CollectorOrder, options: NodeSearchOptions) -> NodeQuery:
    meant = order.query.sentences[:MOST_MEANT] if options.semantic and options.max_embedded else ()
    return NodeQuery(
        tuple(list_texts(order)),
        tuple(list_meant_types(order)),
        meant=meant,
        similar=options.similar,
        max_embedded=options.max_embedded if meant else 0,
        seconds=order.seconds * PATIENCE,
    )


def explain(match: NodeMatch) -> str:
    if match.by_type:
        return "of a type that is asked for"
    return f"{'similar in meaning to' if match.by_meaning else 'matches'} the question ({match.score:.2f})"


def list_texts(order: CollectorOrder) -> Iterator[str]:
    """What is searched for: sentences of the question, and the title of the focus, which "this" stands for."""
    yield from order.query.sentences[:MOST_SENTENCES]
    if order.scope.node is not None:
        yield order.scope.node.title


def list_meant_types(order: CollectorOrder) -> list[str]:
    """The types that the request puts first, and those that the question is about.

    A question about the focus ("summarize this page") means that one, and not all others of its type.
    """
    question = order.question if order.scope.node is None else None
    meant = find_meant_types(question.text) if question is not None else {}
    return list(dict.fromkeys([*order.scope.request.hints.prioritize_types, *meant]))
