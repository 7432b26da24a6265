"""The handlers of the MCP server, in one process with the package's client."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from gateway.app import Gateway
from gateway.domain.agent import SelectionSettings
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.domain.search import Query, SearchResult
from gateway.edge.mcp.call import McpCall
from gateway.edge.mcp.server import McpHandlers, build_server
from gateway.edge.recorder import RequestOutcome
from gateway.pipeline import Pipeline
from gateway.settings import Settings
from tests.support.gateway import POLICIES
from tests.support.yaml_texts import to_yaml


class SilentSearcher:
    """A searcher that never answers."""

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        return await asyncio.get_running_loop().create_future()

    async def rank(self, workspace: str, text: str, resources: Sequence[str]) -> list[str] | None:
        return await asyncio.get_running_loop().create_future()

    async def find_passages(self, workspace: str, text: str, resource: str) -> list[str]:
        return await asyncio.get_running_loop().create_future()

    async def score_texts(self, workspace: str, query: Query, texts: Sequence[str]) -> list[float] | None:
        return await asyncio.get_running_loop().create_future()


class FailingSearcher(SilentSearcher):
    """One that fails in a way that nobody expects."""

    async def rank(self, workspace: str, text: str, resources: Sequence[str]) -> list[str] | None:
        raise RuntimeError("a secret detail")


@asynccontextmanager
async def serve(directory: Path, outcome: RequestOutcome, searcher: Any, **changes: Any) -> AsyncGenerator[Client]:
    """A client of handlers whose pipeline has another searcher."""
    (directory / "all.yaml").write_text(to_yaml(POLICIES))
    data: dict[str, Any] = {"policies": str(directory), "store": "memory:", "semantic": {"enabled": False}}
    data |= {"upstreams": {"demo": {"kind": "demo"}}, "routes": [{"model": "*", "upstream": "demo"}]}
    gateway = await Gateway.open(Settings.model_validate(data))

    def make_call(_: object) -> McpCall:
        snapshot = gateway.policies.get_snapshot("default")
        return McpCall(Exchange("1", ANONYMOUS, snapshot, [(b"x-context-agent", b"editor")]), outcome)

    pipeline: Pipeline = replace(gateway.pipeline, searcher=searcher)
    try:
        handlers = McpHandlers(pipeline, make_call, gateway.metrics.count_tool_run, **changes)
        async with Client(build_server(handlers), cache=None) as client:
            yield client
    finally:
        await gateway.close()


async def test_a_request_that_hangs_ends_at_its_deadline(tmp_path: Path) -> None:
    outcome = RequestOutcome("mcp")
    async with serve(tmp_path, outcome, SilentSearcher(), seconds=1) as client:
        with pytest.raises(MCPError, match=r"longer than 1 s"):
            await client.call_tool("list_context_resources", {"query": "commas"})
        assert outcome.code == "timeout"
        assert len((await client.list_resources()).resources) == 4


async def test_a_bug_is_logged_and_tells_the_client_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serve(tmp_path, RequestOutcome("mcp"), FailingSearcher()) as client:
        with pytest.raises(MCPError, match="Internal error") as caught:
            await client.call_tool("list_context_resources", {"query": "commas"})
    assert "secret" not in str(caught.value)
    assert "a secret detail" in caplog.text


async def test_a_tool_that_is_not_ours_is_unknown(tmp_path: Path) -> None:
    async with serve(tmp_path, RequestOutcome("mcp"), None) as client:
        with pytest.raises(MCPError, match="no tool 'rm'"):
            await client.call_tool("rm", {})
