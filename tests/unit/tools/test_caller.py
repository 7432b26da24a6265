"""Calls: permission, arguments, time; and that nobody pays for servers who has none."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.domain.agent import ToolPermission
from gateway.domain.tool import CallableTool, CallBounds, ToolEndpoint, ToolOutcome, ToolServerAddress
from gateway.links.guard import LinkGuard
from gateway.tools.caller import ToolCaller, cut_result
from gateway.tools.connection import ConnectionTimings, McpConnection, McpFailure
from gateway.tools.listing import ToolListing
from gateway.tools.servers import ToolServers

ALLOW, APPROVE, DENY = ToolPermission
NOWHERE = ToolEndpoint("GET", "http://169.254.169.254/")


def make_tool(permission: ToolPermission | None = None) -> CallableTool:
    return CallableTool("f", NOWHERE, bounds=CallBounds(seconds=0.2, permission=permission))


@pytest.mark.parametrize(
    ("scope", "own", "text"),
    [
        (ALLOW, None, "cannot be called"),
        (ALLOW, APPROVE, "approval"),
        (APPROVE, ALLOW, "approval"),
        (APPROVE, DENY, "may not be used"),
        (DENY, ALLOW, "may not be used"),
    ],
)
async def test_the_strictest_permission_counts(scope: ToolPermission, own: ToolPermission | None, text: str) -> None:
    outcome = await ToolCaller(ToolServers()).call("w", make_tool(own), "{}", scope)
    assert outcome.failed
    assert text in outcome.text


@pytest.mark.parametrize("arguments", ["[]", "{", "1", "[" * 100_000, '{"a": 1} x'])
async def test_arguments_must_be_an_object(arguments: str) -> None:
    outcome = await ToolCaller(ToolServers()).call("w", make_tool(), arguments, ALLOW)
    assert outcome.text.startswith("the arguments are not a JSON object")


async def test_a_call_ends_in_time_even_while_it_waits_for_a_name_to_be_resolved() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    caller = ToolCaller(ToolServers(guard=LinkGuard(resolve=never)))
    tool = CallableTool("f", ToolEndpoint("GET", "https://example.com/"), bounds=CallBounds(seconds=0.05))
    outcome = await caller.call("w", tool, "", ALLOW)
    assert outcome.text == "the tool did not answer within 0.05 seconds."
    assert not caller.queue._running


async def test_a_server_that_no_policy_names_is_not_called() -> None:
    tool = CallableTool("f", ToolServerAddress(url="https://example.com/mcp"), "t", "c/s")
    outcome = await ToolCaller(ToolServers()).call("w", tool, "{}", ALLOW)
    assert (outcome.failed, outcome.unavailable) == (True, True)


def test_a_result_is_cut_where_it_is_too_long() -> None:
    assert cut_result("abc", 3) == "abc"
    assert cut_result("abcd", 3) == "abc\n\n[cut: the first 3 of at least 4 characters]"


class FakeSession:
    """A server that answers as a test says."""

    def __init__(self) -> None:
        self.lists = 0
        self.fails = False

    async def list_tools(self) -> ToolListing:
        self.lists += 1
        if self.fails:
            raise McpFailure("gone")
        return ToolListing()

    async def call(self, name: str, arguments: dict[str, Any], seconds: float) -> ToolOutcome:
        if self.fails:
            raise McpFailure("gone")
        return ToolOutcome(name)

    async def watch_list(self, report_change: Callable[[], None]) -> None:
        return None


async def test_a_connection_notices_that_its_server_is_gone_and_back() -> None:
    session = FakeSession()

    @asynccontextmanager
    async def open_session(
        report_change: Callable[[], None], report_failure: Callable[[], None]
    ) -> AsyncGenerator[FakeSession]:
        yield session

    timings = ConnectionTimings(connect=1, probe=1, refresh=60, between=0.01)
    connection = McpConnection(open_session, lambda listing: False, timings)
    running = asyncio.create_task(connection.run())
    assert (await connection.call("t", {}, 1)).text == "t"
    assert connection.is_up
    session.fails = True
    with pytest.raises(McpFailure):
        await connection.call("t", {}, 1)
    await asyncio.sleep(0.1)
    assert connection.is_down
    assert connection.error == "gone"
    session.fails = False
    await asyncio.sleep(0.8)
    assert connection.is_up
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_call_does_not_wait_for_a_server_that_has_failed_at_once() -> None:
    @asynccontextmanager
    async def open_session(
        report_change: Callable[[], None], report_failure: Callable[[], None]
    ) -> AsyncGenerator[FakeSession]:
        await asyncio.sleep(0.01)
        raise McpFailure("refused")
        yield FakeSession()

    connection = McpConnection(open_session, lambda listing: False, ConnectionTimings())
    running = asyncio.create_task(connection.run())
    with pytest.raises(McpFailure, match="refused"):
        await asyncio.wait_for(connection.call("t", {}, 30), 5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
