"""What collectors find is placed for one request; what callers share never holds any of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from gateway.builder.context_builder import ContextBuilder
from gateway.collectors.registry import CollectorRegistry, NoOptions
from gateway.collectors.semantic import SemanticCollector
from gateway.domain.collector import Category, CollectorOrder, CollectorScope, Findings, FoundItem
from gateway.domain.injection import Injection
from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.search import SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.fair_queue import FairQueue
from gateway.injection.tools import PLAIN_TOOLS
from gateway.queue_bounds import BACKGROUND, CORE_BOUNDS
from tests.support.built_injections import FakeSearcher, build, make_builder

Policies = Callable[[str], Snapshot]

POLICIES = """
contexts:
  house:
    default: true
    resources:
      voice: {type: text, data: {content: Write plainly.}}
      semantic: {type: text, mode: semantic, data: {content: Found by meaning.}}
agents:
  quiet: {contexts: [house], collectors: {diary: {enabled: false}}}
"""


@dataclass
class DiaryCollector:
    """Finds what the user asked before."""

    name: ClassVar = "diary"
    category: ClassVar = Category.ACTIVITY
    priority: ClassVar = 40
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = NoOptions

    fails: bool = False
    scopes: list[CollectorScope] = field(default_factory=list, repr=False)
    orders: list[CollectorOrder] = field(default_factory=list, repr=False)

    def applies(self, scope: CollectorScope) -> bool:
        self.scopes.append(scope)
        return True

    async def collect(self, order: CollectorOrder) -> Findings:
        self.orders.append(order)
        if self.fails:
            raise RuntimeError("no diary")
        text = f"{order.user} asked {order.question.text if order.question else 'nothing'}"
        return Findings((FoundItem("d/1", "entry", "note", "Diary", text, 0.5, "written today"),), considered=3)


@pytest.fixture
def diary() -> DiaryCollector:
    return DiaryCollector()


@pytest.fixture
def searcher() -> FakeSearcher:
    return FakeSearcher()


@pytest.fixture
def builder(diary: DiaryCollector, searcher: FakeSearcher) -> ContextBuilder:
    collectors = CollectorRegistry((SemanticCollector(searcher), diary))
    return replace(make_builder(MemoryBudget()), collectors=collectors)


async def ask(builder: ContextBuilder, snapshot: Snapshot, user: str, question: str, agent: str = "") -> Injection:
    who = Principal(user)
    return await build(builder, snapshot, ContextRequest(agent=agent or None), who, PLAIN_TOOLS, "gpt", question)


async def test_two_users_and_two_questions_share_the_stable_block_and_nothing_else(
    policies: Policies, builder: ContextBuilder, diary: DiaryCollector
) -> None:
    snapshot = policies(POLICIES)
    seen = [await ask(builder, snapshot, user, text) for user in ("anna", "bert") for text in ("Why is it so?", "How?")]
    assert len({one.stable for one in seen}) == 1
    assert len({id(one.texts.stable) for one in seen}) == 1
    assert len({one.volatile for one in seen}) == 4
    for one, user in zip(seen, ("anna", "anna", "bert", "bert"), strict=True):
        assert f"{user} asked" in one.volatile
    assert len(diary.scopes) == 1, "whether it applies is looked at once per scope"
    assert len(diary.orders) == 4


async def test_nothing_that_a_collector_found_is_kept_but_what_everyone_shares(
    policies: Policies, builder: ContextBuilder, diary: DiaryCollector, searcher: FakeSearcher
) -> None:
    snapshot = policies(POLICIES)
    for user in ("anna", "bert", "anna"):
        await ask(builder, snapshot, user, "What is found by meaning?")
    assert (len(diary.orders), searcher.searches) == (3, 1)
    kept = repr([entry.value for entry in snapshot.partitions["default"]._entries.values()])
    assert "anna" not in kept
    assert "asked" not in kept


async def test_an_agent_switches_a_collector_off_and_pays_nothing_for_it(
    policies: Policies, builder: ContextBuilder, diary: DiaryCollector
) -> None:
    found = await ask(builder, policies(POLICIES), "anna", "Why?", agent="quiet")
    assert "asked" not in found.volatile
    assert not diary.orders


async def test_a_failing_collector_is_named_and_the_others_are_placed(
    policies: Policies, builder: ContextBuilder, diary: DiaryCollector
) -> None:
    diary.fails = True
    found = await ask(builder, policies(POLICIES), "anna", "Is it so?")
    assert found.selection.degraded == {"content"}
    assert [(one.name, one.failure) for one in found.selection.collectors] == [("semantic", None), ("diary", "failed")]
    assert "Write plainly." in found.stable


@pytest.mark.parametrize("shared", [True, False])
async def test_others_start_nothing_while_a_question_is_answered(
    policies: Policies, diary: DiaryCollector, shared: bool
) -> None:
    cores = FairQueue(CORE_BOUNDS)
    noted: list[bool] = []

    class WatchingSearcher(FakeSearcher):
        async def find(self, *order: Any) -> SearchResult:
            noted.append(cores.precedence.has_to_wait(BACKGROUND))
            return await super().find(*order)

    builder = make_builder(MemoryBudget(), WatchingSearcher())
    if not shared:
        builder = replace(builder, collectors=CollectorRegistry((SemanticCollector(WatchingSearcher()), diary)))
    builder.threads.share_cores(cores)
    await ask(builder, policies(POLICIES), "anna", "Why is it so?")
    assert noted == [True]
    assert not cores.precedence.has_to_wait(BACKGROUND)
