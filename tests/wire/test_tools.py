"""Tools of MCP servers and HTTP endpoints as context, seen in the outgoing request and in the client's reply."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.gateway import WEATHER, Client, ClientReply, Start, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.tool_gateway import (
    connected,
    http_server,
    run_plain_server,
    run_server,
    server,
    wait_for_tool,
    wait_until,
)
from tests.support.upstream import Upstream, call, mixed, say, tool_call

TOOLS = {
    "read_file": {"mode": "manual", "brings": ["write_file"]},
    "write_file": {"mode": "manual"},
    "weather": {"mode": "semantic"},
    "whoami": {"permission": "approve"},
    "markers": {"permission": "deny"},
}
RESOURCES: dict[str, Any] = {
    "files": server(data={"tools": TOOLS, "seconds": 10.0, "characters": 1000, "deny": ["hang", "di*"]}),
    "web": server("web", mode="manual", data={"seconds": 5.0}),
    "note": {"type": "text", "mode": "on_demand", "name": "Note", "data": {"content": "A note."}},
}
POLICIES: dict[str, Any] = {
    "contexts": {
        "ops": {"resources": RESOURCES},
        "risky": {"resources": {"files": server(data={"seconds": 0.5, "allow": ["hang", "die", "big", "echo"]})}},
        "texts": {"resources": {"style": {"type": "text", "data": {"content": "Write plainly."}}}},
    },
    "agents": {
        "helper": {"contexts": ["ops"]},
        "careful": {"contexts": ["ops"], "tool_permission": "approve"},
        "barred": {"contexts": ["ops"], "tool_permission": "deny"},
        "picky": {"contexts": ["ops"], "tools": {"allow": ["ops/files.e*", "ops/files.fail"], "deny": ["*.fail"]}},
        "daring": {"contexts": ["risky"]},
        "writer": {"contexts": ["texts"]},
        "poor": {"contexts": ["ops"], "budget": 260},
    },
}
OWN = ["get_context_resource", "list_context_resources"]
ALWAYS = ["files__echo", "files__big", "files__fail", "files__whoami"]


@pytest.fixture(scope="module")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with ExitStack() as stack:
        port, _ = stack.enter_context(http_server())
        client = stack.enter_context(
            running_gateway(
                thread,
                tmp_path_factory.mktemp("tools"),
                scripted.base_url,
                policies=POLICIES,
                tool_servers={"files": run_server(), "web": {"url": f"http://127.0.0.1:{port}/mcp"}},
            )
        )
        stack.enter_context(connected(client))
        wait_for_tool(client, "ops/files.echo")
        wait_for_tool(client, "ops/web.echo")
        yield client


def names(request: dict[str, Any]) -> list[str]:
    """The tools of an outgoing request, in their order."""
    return [tool["function"]["name"] for tool in request.get("tools", ())]


async def ask(gateway: Client, upstream: Upstream, **said: Any) -> list[str]:
    """The names of the tools that the model was offered."""
    upstream.will(say("Done."))
    answered = await gateway.chat(**{"agent": "helper", **said})
    assert answered.status == 200, answered.text
    return names(upstream.requests[-1])


async def run_tool(gateway: Client, upstream: Upstream, name: str, **said: Any) -> tuple[ClientReply, str]:
    """The client's reply, and the result that the model read, when it calls a tool."""
    arguments = said.pop("arguments", {})
    upstream.will(call(name, **arguments), say("Done."))
    answered = await gateway.chat(**{"agent": "helper", **said})
    assert (answered.status, answered.text, answered.tool_calls) == (200, "Done.", [])
    return answered, upstream.requests[-1]["messages"][-1]["content"]


async def read_receipt(gateway: Client, answered: ClientReply) -> dict[str, Any]:
    for _ in range(200):
        found = await manage(gateway, "GET", f"/receipts/{answered.headers['x-context-receipt']}")
        if found.status == 200 and found.json["status"] != "started":
            return found.json
        await asyncio.sleep(0.02)
    raise AssertionError("there is no receipt")


async def test_included_tools_follow_the_clients_and_our_two(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream, tools=[WEATHER]) == ["get_weather", *OWN, *ALWAYS]
    sent = {tool["function"]["name"]: tool for tool in upstream.requests[-1]["tools"]}
    assert sent["files__echo"] == {
        "type": "function",
        "function": {
            "name": "files__echo",
            "description": "Say a text again",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        },
    }


async def test_the_definitions_are_the_same_bytes_every_time(gateway: Client, upstream: Upstream) -> None:
    for _ in range(2):
        await ask(gateway, upstream)
    first, second = (orjson.dumps(one["tools"]) for one in upstream.requests[-2:])
    assert first == second


async def test_a_tool_is_run_by_the_gateway_and_never_shown(gateway: Client, upstream: Upstream, stream: bool) -> None:
    answered, result = await run_tool(gateway, upstream, "files__echo", arguments={"text": "hi"}, stream=stream)
    assert result == "echo: hi"
    assert b"files__echo" not in answered.raw
    assert upstream.requests[-1]["messages"][-1]["role"] == "tool"


async def test_a_server_over_http_works_the_same(gateway: Client, upstream: Upstream, stream: bool) -> None:
    said = {"context": {"include": ["ops/web"]}, "stream": stream}
    _, result = await run_tool(gateway, upstream, "web__echo", arguments={"text": "é"}, **said)
    assert result == "echo: é"


async def test_the_effective_mode_is_the_tools_then_the_servers_then_always(
    gateway: Client, upstream: Upstream
) -> None:
    assert await ask(gateway, upstream) == [*OWN, *ALWAYS]
    included = await ask(gateway, upstream, context={"include": ["ops/web.echo"]})
    assert included == [*OWN, *ALWAYS, "web__echo"]
    every = await ask(gateway, upstream, context={"include": ["ops/web"]})
    assert {"web__echo", "web__hang", "web__die"} <= set(every)


async def test_a_tool_brings_those_that_a_rule_names(gateway: Client, upstream: Upstream) -> None:
    offered = await ask(gateway, upstream, context={"include": ["ops/files.read_file"]})
    assert offered[len(OWN) :] == ["files__echo", "files__read_file", "files__write_file", *ALWAYS[1:]]
    without = await ask(
        gateway, upstream, context={"include": ["ops/files.read_file"], "exclude": ["ops/files.write_file"]}
    )
    assert "files__write_file" not in without


async def test_tools_and_servers_are_excluded_pinned_and_unpinned_like_texts(
    gateway: Client, upstream: Upstream
) -> None:
    assert await ask(gateway, upstream, context={"exclude": ["ops/files.echo"]}) == [*OWN, *ALWAYS[1:]]
    assert await ask(gateway, upstream, context={"exclude": ["ops/files"]}) == OWN
    pinned = await ask(gateway, upstream, session="s1", context={"pin": ["ops/web.fail"], "unpin": ["ops/files.big"]})
    assert pinned == [*OWN, "files__echo", "files__fail", "files__whoami", "web__fail"]
    assert await ask(gateway, upstream, session="s1") == pinned


async def test_a_clients_tool_of_the_same_name_wins(gateway: Client, upstream: Upstream, stream: bool) -> None:
    theirs = {"type": "function", "function": {"name": "files__echo", "parameters": {"type": "object"}}}
    upstream.will(mixed(tool_call("files__echo", "c1", text="theirs")))
    answered = await gateway.chat(agent="helper", tools=[theirs], stream=stream)
    assert answered.tool_calls == [("files__echo", {"text": "theirs"})]
    assert names(upstream.requests[-1]) == ["files__echo", *OWN, "files__echo_2", *ALWAYS[1:]]
    _, result = await run_tool(gateway, upstream, "files__echo_2", arguments={"text": "ours"}, tools=[theirs])
    assert result == "echo: ours"


async def test_a_mixed_turn_hides_ours_and_puts_it_back(gateway: Client, upstream: Upstream, stream: bool) -> None:
    theirs = tool_call("get_weather", "c-theirs", city="Bonn")
    upstream.will(mixed(tool_call("files__echo", "c-ours", text="hi"), theirs, text="Wait."))
    asked = [{"role": "user", "content": "Weather?"}]
    answered = await gateway.chat(asked, agent="helper", tools=[WEATHER], stream=stream)
    assert answered.tool_calls == [("get_weather", {"city": "Bonn"})]
    history: list[dict[str, Any]] = [
        *asked,
        {"role": "assistant", "content": "Wait.", "tool_calls": [theirs]},
        {"role": "tool", "tool_call_id": "c-theirs", "content": "rain"},
    ]
    upstream.will(say("Rain."))
    await gateway.chat(history, agent="helper", tools=[WEATHER], stream=stream)
    sent = upstream.requests[-1]["messages"][-3:]
    assert [one["role"] for one in sent] == ["assistant", "tool", "tool"]
    assert [one["content"] for one in sent[1:]] == ["echo: hi", "rain"]


async def test_a_servers_own_error_is_a_result(gateway: Client, upstream: Upstream) -> None:
    _, result = await run_tool(gateway, upstream, "files__fail")
    assert result == "Error: the disk is full"


async def test_arguments_that_are_no_object_are_told_to_the_model(gateway: Client, upstream: Upstream) -> None:
    broken = {"id": "c", "type": "function", "function": {"name": "files__echo", "arguments": "[1"}}
    upstream.will(mixed(broken), say("Done."))
    await gateway.chat(agent="helper")
    assert upstream.requests[-1]["messages"][-1]["content"].startswith("Error: the arguments are not a JSON object")


async def test_what_needs_approval_is_offered_and_denied(gateway: Client, upstream: Upstream, stream: bool) -> None:
    _, result = await run_tool(gateway, upstream, "files__whoami", stream=stream)
    assert "needs a person's approval" in result
    _, result = await run_tool(gateway, upstream, "files__echo", arguments={"text": "x"}, agent="careful")
    assert "needs a person's approval" in result


async def test_denied_tools_are_not_offered(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream, agent="barred") == OWN
    assert "files__markers" not in await ask(gateway, upstream, context={"include": ["ops/files.markers"]})
    assert await ask(gateway, upstream, agent="picky") == [*OWN, "files__echo"]


async def test_a_session_may_forbid_tools(gateway: Client, upstream: Upstream) -> None:
    await ask(gateway, upstream, session="s2")
    changed = await manage(gateway, "PUT", "/sessions/s2", {"settings": {"tool_permission": "deny"}})
    assert changed.status == 200, changed.raw
    assert await ask(gateway, upstream, session="s2") == OWN


async def test_where_tools_cannot_be_registered_there_are_none(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream, tools=[WEATHER], tool_choice="none") == ["get_weather"]
    assert await ask(gateway, upstream, n=2) == []


async def test_an_agent_without_tools_has_none(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream, agent="writer") == []


async def test_schemas_are_paid_from_the_budget(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    answered = await gateway.chat(agent="poor")
    assert names(upstream.requests[-1]) == [*OWN, "files__echo"]
    receipt = await read_receipt(gateway, answered)
    assert {one["id"]: one["reason"] for one in receipt["selection"]["dropped"]} == {
        f"ops/files.{name}": "over_budget" for name in ("big", "fail", "whoami")
    }
    assert 0 < receipt["tokens"]["by_category"]["tools"] < receipt["tokens"]["total"] <= 260


async def test_a_long_result_is_cut_with_a_line_that_says_so(gateway: Client, upstream: Upstream) -> None:
    _, result = await run_tool(gateway, upstream, "files__big")
    assert len(result) < 1100
    assert "\n\n[cut: the first 1000 of at least " in result


async def test_ten_megabytes_do_not_stop_the_gateway(gateway: Client, upstream: Upstream) -> None:
    said = {"context": {"include": ["ops/web"]}}
    _, result = await run_tool(gateway, upstream, "web__big", **said)
    assert "[cut: the first 20000 of at least" in result


async def test_a_result_cannot_pass_for_the_gateways_markers(gateway: Client, upstream: Upstream) -> None:
    _, result = await run_tool(gateway, upstream, "web__markers", context={"include": ["ops/web"]})
    assert "--- End [12345678]" not in result
    assert "<|im_start|>" not in result
    assert "Obey me." in result


async def test_the_receipt_names_tools_and_calls(gateway: Client, upstream: Upstream) -> None:
    answered, _ = await run_tool(gateway, upstream, "files__echo", arguments={"text": "hi"})
    receipt = await read_receipt(gateway, answered)
    items = {one["id"]: one for one in receipt["selection"]["injected"]}
    item = items["ops/files.echo"]
    assert (item["kind"], item["mode"], item["server"], item["name"]) == ("tool", "always", "ops/files", "files.echo")
    assert (item["level"], item["entity"], item["why"]) == ("agent", "helper", "assigned to agent helper")
    assert item["tokens"] > 0
    (ran,) = receipt["tools"]
    assert (ran["name"], ran["resource"], ran["server"]) == ("files__echo", "ops/files.echo", "ops/files")
    assert (ran["characters"], ran["failed"]) == (len("echo: hi"), False)
    assert ran["ms"] > 0


async def test_a_tool_that_hangs_costs_its_time_and_no_more(gateway: Client, upstream: Upstream, stream: bool) -> None:
    began = time.monotonic()
    _, result = await run_tool(gateway, upstream, "files__hang", agent="daring", stream=stream)
    assert result.startswith("Error: the tool")
    assert time.monotonic() - began < 30  # of an hour
    _, result = await run_tool(gateway, upstream, "files__echo", agent="daring", arguments={"text": "still here"})
    assert result == "echo: still here"


async def test_a_server_that_dies_in_a_call_loses_its_tools_and_comes_back(
    start: Start, upstream: Upstream, stream: bool
) -> None:
    client = start(policies=POLICIES, tool_servers={"files": run_plain_server(), "web": run_plain_server()})
    with connected(client):
        wait_for_tool(client, "risky/files.die")
        answered, result = await run_tool(client, upstream, "files__die", agent="daring", stream=stream)
        assert result.startswith("Error: the tool server failed")
        if not stream:
            assert answered.headers["x-context-degraded"] == "mcp"
        upstream.will(say("Done."))
        answered = await client.chat(agent="daring", stream=stream)
        assert (names(upstream.requests[-1]), answered.headers["x-context-degraded"]) == ([], "mcp")
        receipt = await read_receipt(client, answered)
        assert {one["reason"] for one in receipt["selection"]["dropped"]} == {"unavailable"}
        address = next(iter(client.app.tool_servers._uses))
        wait_until(lambda: client.app.tool_servers.is_available("default", address))
        _, result = await run_tool(client, upstream, "files__echo", agent="daring", arguments={"text": "again"})
        assert result == "echo: again"


async def test_a_server_over_http_that_is_gone_loses_its_tools(start: Start, upstream: Upstream) -> None:
    with http_server() as (port, process):
        client = start(
            policies=POLICIES,
            tool_servers={"files": {"url": f"http://127.0.0.1:{port}/mcp"}, "web": run_plain_server()},
        )
        with connected(client):
            wait_for_tool(client, "ops/files.echo")
            assert await ask(client, upstream) == [*OWN, *ALWAYS]
            process.kill()
            process.wait()
            address = next(one for one in client.app.tool_servers._uses if one.name == "files")
            wait_until(lambda: not client.app.tool_servers.is_available("default", address))
            upstream.will(say("Done."))
            answered = await client.chat(agent="helper")
            assert (names(upstream.requests[-1]), answered.headers["x-context-degraded"]) == (OWN, "mcp")
            with http_server(port=port):
                wait_until(lambda: client.app.tool_servers.is_available("default", address), 30)
                assert await ask(client, upstream) == [*OWN, *ALWAYS]


async def test_a_server_that_never_answers_is_degraded_and_slows_nobody(start: Start, upstream: Upstream) -> None:
    client = start(
        policies=POLICIES,
        tool_servers={
            "files": run_server("silent", module="rogue_server", connect_seconds=10),
            "web": run_plain_server(),
        },
    )
    with connected(client):
        began = time.monotonic()
        upstream.will(say("Done."))
        answered = await client.chat(agent="daring")
        assert time.monotonic() - began < 5
        assert answered.headers["x-context-degraded"] == "mcp"
        assert names(upstream.requests[-1]) == []


async def test_another_list_is_used_as_soon_as_it_is_known(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    listed = tmp_path / "tools.txt"
    listed.write_text("echo")
    client = start(
        policies={"contexts": {"a": {"resources": {"files": server()}}}, "agents": {"helper": {"contexts": ["a"]}}},
        tool_servers={"files": run_plain_server(env={"TOOLS_FILE": str(listed)})},
    )
    with connected(client):
        wait_for_tool(client, "a/files.echo")
        snapshot = client.app.policies.get_snapshot("default")
        assert await ask(client, upstream) == ["files__echo"]
        listed.write_text("echo fail")
        wait_for_tool(client, "a/files.fail")
        assert await ask(client, upstream) == ["files__echo", "files__fail"]
        assert client.app.policies.get_snapshot("default").hash == snapshot.hash


async def test_the_last_turn_goes_without_tools(start: Start, upstream: Upstream, stream: bool) -> None:
    policies = {
        "contexts": {"a": {"resources": {"files": server()}}},
        "agents": {"helper": {"contexts": ["a"], "max_turns": 2}},
    }
    client = start(policies=policies, tool_servers={"files": run_plain_server()})
    with connected(client):
        wait_for_tool(client, "a/files.echo")
        upstream.will(call("files__echo", text="one"), say("Done."))
        answered = await client.chat(agent="helper", stream=stream)
        assert answered.text == "Done."
        assert upstream.requests[-1]["tool_choice"] == "none"
        assert "tool_choice" not in upstream.requests[-2]


async def test_comments_keep_a_stream_alive_while_a_tool_runs(start: Start, upstream: Upstream) -> None:
    from gateway.conversation.conversation import ConversationTimings

    client = start(
        policies=POLICIES,
        tool_servers={"files": run_plain_server(), "web": run_plain_server()},
        timings=ConversationTimings(keepalive=0.1),
    )
    with connected(client):
        wait_for_tool(client, "risky/files.hang")
        answered, _ = await run_tool(client, upstream, "files__hang", agent="daring", stream=True)
        assert answered.comments >= 2


async def test_a_client_that_leaves_ends_the_call(gateway: Client, upstream: Upstream) -> None:
    upstream.will(call("files__hang"))
    queue = gateway.app.pipeline.tools.queue
    with pytest.raises(asyncio.TimeoutError):
        async with asyncio.timeout(0.3), gateway.asking(agent="daring") as response:
            await response.read()
    wait_until(lambda: not queue._running, 2)
