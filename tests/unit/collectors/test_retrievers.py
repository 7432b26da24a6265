"""The retrievers collector: whom it asks, with what question, and what it makes of silence."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import yaml
from msgspec.structs import replace

from gateway.collectors.retrievers import RetrieverCollector, choose_question
from gateway.domain.agent import SelectionSettings
from gateway.domain.collector import CollectorOrder
from gateway.domain.resource import Resource
from gateway.domain.retriever import FoundPassage, Lookup, ScopeRetrievers
from gateway.domain.scope import ContextRequest
from gateway.domain.search import Pick, Query, Question, SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.retrievers.service import Retrievers
from gateway.semantic.search.sentences import split_question
from gateway.semantic.searcher import SemanticSearcher
from tests.support.content_orders import make_order

POLICIES: dict[str, Any] = {
    "contexts": {
        "help": {
            "resources": {
                name: {"type": "retriever", "description": name, "data": {"url": f"https://example.com/{name}"}}
                for name in ("quick", "slow", "broken")
            }
        }
    }
}


@dataclass
class FakeRetrievers:
    """Answers at once, never, or not at all, by the resource's name."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    async def look_up(self, workspace: str, resource: Resource, question: str, seconds: float) -> Lookup:
        self.asked.append((resource.id, question))
        if resource.id.endswith("slow"):
            await asyncio.sleep(0)
            return Lookup(failure="it did not answer in time", late=True)
        if resource.id.endswith("broken"):
            return Lookup(failure="the endpoint answered HTTP 500")
        return Lookup((FoundPassage("First.", "Title", "a.md", 0.9), FoundPassage("Second.")))


@dataclass
class FakeSearcher:
    result: SearchResult

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        return replace(self.result, picks=tuple(one for one in self.result.picks if one.resource in resources))


@pytest.fixture
def snapshot(policies: Callable[[str], Snapshot]) -> Snapshot:
    return policies(yaml.safe_dump(POLICIES))


def order(
    collector: RetrieverCollector, snapshot: Snapshot, always: str = "", matched: str = "", question: str = "How long?"
) -> CollectorOrder:
    made = make_order(collector, snapshot, ContextRequest(), question)
    known = {name: snapshot.resources[f"help/{name}"] for name in ("quick", "slow", "broken")}
    scope = ScopeRetrievers(tuple(known[n] for n in always.split()), tuple(known[n] for n in matched.split()))
    return replace(made, retrievers=scope)


def make_collector(result: SearchResult | None = None) -> tuple[RetrieverCollector, FakeRetrievers]:
    retrievers, searcher = FakeRetrievers(), None if result is None else cast(SemanticSearcher, FakeSearcher(result))
    return RetrieverCollector(cast(Retrievers, retrievers), searcher), retrievers


async def test_the_others_speak_although_one_is_late_and_one_fails(snapshot: Snapshot) -> None:
    collector, _ = make_collector()
    found = await collector.collect(order(collector, snapshot, "quick slow broken"))
    assert [(one.id, one.score, one.source, one.origin) for one in found.items] == [
        ("help/quick#1", 0.9, "a.md", "help/quick"),
        ("help/quick#2", 0.75, "", "help/quick"),
    ]
    assert (found.degraded, found.complete) == ("links", False)
    assert found.missed == {"help/slow": "it did not answer in time", "help/broken": "the endpoint answered HTTP 500"}


async def test_one_that_is_semantic_is_asked_only_if_its_description_matches(snapshot: Snapshot) -> None:
    collector, asked = make_collector(SearchResult((Pick("help/quick", 0.8),)))
    found = await collector.collect(order(collector, snapshot, matched="quick broken"))
    assert asked.asked == [("help/quick", "How long?")]
    assert (len(found.items), found.degraded) == (2, None)


async def test_a_search_that_is_late_is_told_and_nobody_is_asked(snapshot: Snapshot) -> None:
    collector, asked = make_collector(SearchResult(reason="late"))
    found = await collector.collect(order(collector, snapshot, matched="quick"))
    assert (found.degraded, asked.asked) == ("semantic", [])


async def test_without_a_question_nobody_is_asked(snapshot: Snapshot) -> None:
    collector, asked = make_collector()
    await collector.collect(order(collector, snapshot, "quick", question=""))
    assert asked.asked == []


async def test_no_request_asks_more_than_its_limit(snapshot: Snapshot) -> None:
    collector, asked = make_collector()
    asking = order(collector, snapshot, "quick slow")
    found = await collector.collect(replace(asking, options=collector.options(most=1)))
    assert [name for name, _ in asked.asked] == ["help/quick"]
    assert found.missed == {"help/slow": "too many retrievers apply to this request"}


def test_a_follow_up_is_sent_with_what_it_refers_to(snapshot: Snapshot) -> None:
    collector, _ = make_collector()
    said = Question("And in German?", ("How long does a refund take?",))
    asking = replace(order(collector, snapshot, "quick"), question=said, query=split_question(said))
    assert choose_question(asking) == "How long does a refund take? And in German?"
    long = Question("word " * 2000)
    assert len(choose_question(replace(asking, question=long, query=split_question(long)))) <= 2000
