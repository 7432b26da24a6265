"""The retrievers collector: what search endpoints and plugins find for the question."""

import asyncio
import time
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import msgspec
from pydantic import Field

from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings, FoundItem
from gateway.domain.resource import Resource
from gateway.domain.retriever import NO_RETRIEVERS, RETRIEVER, FoundPassage, Lookup
from gateway.domain.summary import SUMMARIZE
from gateway.retrievers.service import LONGEST_QUESTION, Retrievers
from gateway.semantic.searcher import SemanticSearcher

MARGIN = 0.9  # of the collectors' time: what is late by itself must not make the rest late
WHOLE = 500  # characters up to which a question is sent as it is searched for, with what it refers to
FIRST, STEP = 0.8, 0.05  # the scores of passages whose endpoint tells none: by their order


class RetrieverOptions(NoOptions):
    """How many retrievers one request may ask."""

    most: int = Field(8, ge=0, le=32, description="Retrievers that one request asks.")


class Answer(NamedTuple):
    """What one retriever came to."""

    resource: Resource
    lookup: Lookup


class Matches(NamedTuple):
    """What the retrievers whose description matches the question came to."""

    answers: Sequence[Answer] = ()
    searched: bool = True  # False: nobody could tell whether they match


class RetrieverCollector(msgspec.Struct, frozen=True):
    """Asks the retrievers of a scope side by side; one that is late or fails is left out."""

    name: ClassVar = "retrievers"
    category: ClassVar = Category.SEMANTIC
    priority: ClassVar = 22
    degraded: ClassVar = "links"  # a text from elsewhere is missing
    shared: ClassVar = False
    options: ClassVar = RetrieverOptions

    retrievers: Retrievers
    searcher: SemanticSearcher | None

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls(parts.retrievers, parts.searcher) if parts.retrievers is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return RETRIEVER in scope.types  # whether a request asks any of them is known with its candidates

    async def collect(self, order: CollectorOrder) -> Findings:
        question = choose_question(order)
        if not question or order.retrievers is NO_RETRIEVERS:
            return NO_FINDINGS
        until = time.monotonic() + MARGIN * order.seconds
        always, room = order.retrievers.always, order.options.most
        asked = [self._ask(order.workspace, one, question, until) for one in always[:room]]
        answers, matches = await asyncio.gather(asyncio.gather(*asked), self._ask_matching(order, question, until))
        return make_findings([*answers, *matches.answers], always[room:], searched=matches.searched)

    async def _ask_matching(self, order: CollectorOrder, question: str, until: float) -> Matches:
        """Search among descriptions first; those that match are asked with what is left of the time."""
        matched = {one.id: one for one in order.retrievers.matched}
        room = order.options.most - len(order.retrievers.always)
        if not matched or self.searcher is None or room <= 0 or order.scope.selection.enabled is False:
            return Matches()
        found = await self.searcher.find(order.workspace, order.query, tuple(matched), order.scope.selection)
        picked = [matched[pick.resource] for pick in found.picks if pick.resource in matched][:room]
        answers = await asyncio.gather(*(self._ask(order.workspace, one, question, until) for one in picked))
        return Matches(answers, searched=found.reason not in ("late", "unavailable"))

    async def _ask(self, workspace: str, resource: Resource, question: str, until: float) -> Answer:
        seconds = max(0.0, until - time.monotonic())
        return Answer(resource, await self.retrievers.look_up(workspace, resource, question, seconds))


def choose_question(order: CollectorOrder) -> str:
    """What is sent: the question, and with a short follow-up what it refers to."""
    if order.question is None or not order.query.sentences:
        return ""
    text = " ".join(order.question.text[: 4 * LONGEST_QUESTION].split())
    return order.query.sentences[0] if len(text) <= WHOLE else text[:LONGEST_QUESTION]


def make_findings(answers: Sequence[Answer], unasked: Sequence[Resource], *, searched: bool) -> Findings:
    items = [
        make_item(resource, passage, place)
        for resource, lookup in answers
        for place, passage in enumerate(lookup.passages)
    ]
    missed = {one.resource.id: one.lookup.failure for one in answers if one.lookup.failure is not None}
    missed |= {one.id: "too many retrievers apply to this request" for one in unasked}
    degraded = RetrieverCollector.degraded if missed else None if searched else "semantic"
    return Findings(tuple(items), considered=len(items), degraded=degraded, missed=missed, complete=not missed)


def make_item(resource: Resource, passage: FoundPassage, place: int) -> FoundItem:
    score = passage.score if passage.score is not None else max(0.0, FIRST - STEP * place)
    told = f" with a score of {passage.score:.2f}" if passage.score is not None else ""
    return FoundItem(
        id=f"{resource.id}#{place + 1}",
        kind="passage",
        type="passage",
        title=passage.title or resource.name,
        text=passage.text,
        score=score,
        why=f"found by {resource.id} for this question{told}",
        breadcrumb=(resource.name,) if passage.title and passage.title != resource.name else (),
        source=passage.source,
        origin=resource.id,
        # Passages differ from question to question: a summary would hardly ever be needed again.
        truncate="extractive" if resource.truncate == SUMMARIZE else resource.truncate,
    )
