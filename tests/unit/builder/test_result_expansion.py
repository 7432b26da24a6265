"""Results of tools that bring further context: calls of one turn run at once, and nothing here may end an exchange."""

import asyncio
import time
from collections.abc import Sequence

import pytest
from msgspec import Raw

from gateway.builder.context_builder import ContextBuilder, ContextOrder
from gateway.builder.result_expansion import ResultExpansion
from gateway.collectors.contexts import build_merge
from gateway.collectors.registry import CollectorRegistry
from gateway.collectors.semantic import SemanticCollector
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.domain.agent import SelectionSettings
from gateway.domain.candidate import Candidate, Level
from gateway.domain.exchange import Exchange
from gateway.domain.injection import ClientTools, Injection
from gateway.domain.principal import Principal
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.scope import ContextRequest
from gateway.domain.search import Pick, Query, SearchResult
from gateway.domain.selection import Omission, Selection
from gateway.domain.tool import CallableTool, ToolEndpoint
from gateway.domain.tool_result import ToolResult
from gateway.fair_queue import FairThreads
from gateway.injection.tools import PLAIN_TOOLS
from gateway.queue_bounds import REQUEST_BOUNDS, QueueBounds
from gateway.resources.registry import load_registry
from gateway.scopes.scope import build_scope
from tests.support.built_injections import FakeSearcher, WordCounter
from tests.support.search_harness import make_snapshot

WHO = Principal("a", "w")
NO_CLIENT_TOOLS = ClientTools()


class SlowCounter(WordCounter):
    """Takes its time, as long texts do."""

    def count(self, text: str, model: str) -> int:
        time.sleep(0.02)
        return super().count(text, model)


class EverySearcher(FakeSearcher):
    """Finds all there is."""

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        return SearchResult(tuple(Pick(name, 0.9) for name in resources))


def make_resource(name: str, kind: ResourceKind) -> Resource:
    data = CallableTool(name, ToolEndpoint("GET", "https://example.com")) if kind is ResourceKind.TOOL else None
    text = f'{{"type":"function","function":{{"name":"{name}"}}}}' if data else f"About {name}."
    return Resource(
        id=f"c/{name}", context="c", type="text", name=name, mode=Mode.SEMANTIC, kind=kind, description="",
        languages=(), conflict_key=None, priority=100, required=False, mandatory=False, readers=(), examples=(),
        truncate="none", data=data, text=text,
    )  # fmt: skip


def make_expansion(
    client: ClientTools = NO_CLIENT_TOOLS, *, available: bool = True, bounds: QueueBounds = REQUEST_BOUNDS
) -> ResultExpansion:
    """Two texts and two tools that any result brings."""
    kinds = {"one": ResourceKind.REFERENCE, "two": ResourceKind.REFERENCE, "ping": ResourceKind.TOOL}
    found = [make_resource(name, kind) for name, kind in {**kinds, "pong": ResourceKind.TOOL}.items()]
    left = [Omission(Candidate(one, Level.AGENT, "", "contexts", "")) for one in found]
    injection = Injection(
        Selection(catalogue=tuple(left[:2]), waiting=tuple(left[2:]), budget=1000),
        searchable=tuple(one.id for one in found),
    )
    collectors = CollectorRegistry((SemanticCollector(EverySearcher()),))
    threads = FairThreads("expansion", bounds)
    builder = ContextBuilder(SlowCounter(), build_merge(load_registry()), b"s", 150, collectors, threads=threads)
    snapshot = make_snapshot(*found)
    exchange = Exchange("x", WHO, snapshot)
    order = ContextOrder(
        exchange, build_scope(ContextRequest(), None, WHO, snapshot), "m", PLAIN_TOOLS, CHAT.decode(b'{"messages":[]}')
    )
    return ResultExpansion(builder, order, injection, PLAIN_TOOLS, client, lambda tool: available, 8)


async def test_calls_of_one_turn_bring_nothing_twice() -> None:
    expansion = make_expansion()
    results = await asyncio.gather(*(expansion.expand("f", ToolResult("said")) for _ in range(4)))
    assert sum(one.text.count("About one.") for one in results) == 1
    assert [name for one in results for name in one.added] == ["ping", "pong"]
    assert list(expansion.tools.called) == ["ping", "pong"]


async def test_a_busy_workspace_gets_the_result_alone() -> None:
    """The tool has run, perhaps with effects: the exchange goes on."""
    expansion = make_expansion(bounds=QueueBounds(places=1, each=1, waiting=0))
    await expansion.builder.threads.queue.acquire("w")
    assert await expansion.expand("f", ToolResult("said")) == ToolResult("said")
    assert expansion.order.exchange.degraded == {"semantic"}


async def test_tools_whose_server_is_down_are_not_added() -> None:
    expansion = make_expansion(available=False)
    result = await expansion.expand("f", ToolResult("said"))
    assert (result.added, result.resources) == ({}, ("c/one", "c/two"))


@pytest.mark.parametrize(("clients", "added"), [(124, 2), (125, 1), (126, 0), (200, 0)])
async def test_a_request_never_has_more_tools_than_upstreams_take(clients: int, added: int) -> None:
    expansion = make_expansion(ClientTools((Raw(b"{}"),) * clients))
    assert len((await expansion.expand("f", ToolResult("said"))).added) == added
