"""Summaries in what a builder caches: used as soon as they are there, and never missed."""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from gateway.builder.context_builder import ContextBuilder
from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.snapshot import ServedSnapshots, Snapshot
from gateway.domain.summary import SummaryOrder
from gateway.injection.tools import PLAIN_TOOLS
from tests.support.built_injections import build, make_builder

Policies = Callable[[str], Snapshot]
WHO = Principal("key")
TEXT = " ".join(f"word{number}" for number in range(300))
POLICIES = f"""
contexts:
  house: {{resources: {{long: {{type: text, truncate: summarize, data: {{content: "{TEXT}"}}}}}}}}
agents: {{writer: {{contexts: [house]}}}}
"""


class FakeSummaries:
    """A source whose store has what it is given; `on_load` is what happens while a request waits for it."""

    def __init__(self, stored: str | None = None, on_load: Callable[[], None] = lambda: None) -> None:
        self.stored, self.on_load = stored, on_load
        self.kept: dict[SummaryOrder, str] = {}
        self.queued: list[SummaryOrder] = []
        self.loads = 0
        self.most = 64

    def open(self, workspace: str) -> "FakeSummaries":
        return self

    def find(self, order: SummaryOrder) -> str | None:
        return self.kept.get(order)

    async def load(self, workspace: str, orders: Sequence[SummaryOrder], *, queue: bool) -> Mapping[SummaryOrder, str]:
        self.loads += 1
        self.queued += orders if queue else []
        self.on_load()
        return dict.fromkeys(orders, self.stored) if self.stored is not None else {}

    def find_failure(self, workspace: str, text: str) -> str | None:
        return None


async def show(builder: ContextBuilder, snapshot: Snapshot) -> str:
    asked = ContextRequest(agent="writer")
    return (await build(builder, snapshot, asked, WHO, PLAIN_TOOLS, "m", "Hello")).block


async def test_what_the_store_has_is_in_the_first_request(policies: Policies) -> None:
    source = FakeSummaries("It says so.")
    builder = replace(make_builder(MemoryBudget()), summaries=source)
    snapshot = policies(POLICIES)
    assert "It says so." in await show(builder, snapshot)
    assert "It says so." in await show(builder, snapshot)
    assert source.loads == 1  # the second one was cached


async def test_a_summary_that_arrives_while_a_context_is_built_is_not_missed(policies: Policies) -> None:
    snapshot = policies(POLICIES)
    source = FakeSummaries()

    def arrive() -> None:
        source.kept = dict.fromkeys(source.queued, "It says so.")
        ServedSnapshots(snapshot, {}).forget_injections("default")

    source.on_load = arrive
    builder = replace(make_builder(MemoryBudget()), summaries=source)
    assert "word1" in await show(builder, snapshot)
    assert "It says so." in await show(builder, snapshot)


async def test_what_nobody_is_served_queues_nothing(policies: Policies) -> None:
    source = FakeSummaries()
    builder = replace(make_builder(MemoryBudget()), summaries=source)
    assert "word1" in await show(builder.isolate(None), policies(POLICIES))
    assert (source.queued, source.loads) == ([], 1)


async def test_a_scope_without_such_a_text_asks_for_nothing(policies: Policies) -> None:
    source = FakeSummaries("It says so.")
    builder = replace(make_builder(MemoryBudget()), summaries=source)
    await show(builder, policies(POLICIES.replace("truncate: summarize, ", "")))
    assert source.loads == 0
