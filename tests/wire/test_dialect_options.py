"""Options and paths that only some dialects have: limits on calls, Azure's paths, HEAD, queries, methods."""

import asyncio
from typing import Any

import aiohttp
import orjson
import pytest
from openai import AzureOpenAI, OpenAI

from tests.support.gateway import STYLE, Client, Start
from tests.support.responses_answers import answer_with
from tests.support.spoken import CHAT_MODEL
from tests.support.upstream import Canned, Response, Upstream, say, status

SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}}
OWN = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "own",
    "name": "get_context_resource",
    "arguments": orjson.dumps({"resource_id": STYLE}).decode(),
}
SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
}


@pytest.mark.parametrize(("limit", "left", "kept"), [(3, 1, ["web_search", "get_weather"]), (2, 2, ["get_weather"])])
async def test_max_tool_calls_holds_for_all_turns_together(
    gateway: Client, upstream: Upstream, stream: bool, limit: int, left: int, kept: list[str]
) -> None:
    turn = answer_with(SEARCH, {**SEARCH, "id": "ws_2"}, OWN, stream=stream, max_tool_calls=limit)
    upstream.will(turn, answer_with(SAID, stream=stream, max_tool_calls=left))
    weather = {"type": "function", "name": "get_weather", "parameters": {}}
    body = {"model": "m-large", "input": "Hi", "stream": stream, "tools": [{"type": "web_search"}, weather]}
    reply = await gateway.post(orjson.dumps({**body, "max_tool_calls": limit}), "/responses", x_context_agent="editor")
    assert reply.status == 200, reply.raw
    first, second = upstream.requests
    assert (first["max_tool_calls"], second["max_tool_calls"]) == (limit, left)
    assert [tool.get("name") or tool["type"] for tool in second["tools"]][:-2] == kept
    shown = orjson.loads(reply.raw.rpartition(b"data: ")[2])["response"] if stream else reply.json
    assert [item["type"] for item in shown["output"]] == ["web_search_call", "web_search_call", "message"]
    assert shown["max_tool_calls"] == limit


async def test_the_query_of_a_count_goes_up(start: Start, upstream: Upstream) -> None:
    claude = start(upstream_settings={"kind": "anthropic", "api_key": "sk-ant-key"})
    upstream.will(Canned(Response(200, "application/json", (b'{"input_tokens":42}',))))
    body = orjson.dumps({"model": "claude-x", "messages": [{"role": "user", "content": "Hi"}]})
    reply = await claude.post(body, "/messages/count_tokens?beta=true")
    assert (reply.json, upstream.seen[0].path) == ({"input_tokens": 42}, "/v1/messages/count_tokens?beta=true")


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/openai/v1/responses/input_tokens"])
async def test_tokens_of_a_response_are_counted_with_the_context(
    gateway: Client, upstream: Upstream, path: str
) -> None:
    """By an upstream that has such an endpoint; else they are estimated."""
    counted = b'{"object":"response.input_tokens","input_tokens":42}'
    upstream.will(Canned(Response(200, "application/json", (counted,))), *[status(404)] * 2)
    client = OpenAI(
        api_key="none", base_url=gateway.base_url.removesuffix("/v1") + path.removesuffix("/responses/input_tokens")
    )
    asked: dict[str, Any] = {"model": "m-large", "input": "Hi", "instructions": "Be brief."}
    agent = {"x-context-agent": "greeter"}
    found = await asyncio.to_thread(client.responses.input_tokens.count, **asked, extra_headers=agent)
    assert (found.object, found.input_tokens) == ("response.input_tokens", 42)
    assert upstream.seen[0].path == "/v1/responses/input_tokens"
    assert upstream.requests[0].keys() == asked.keys()
    assert "Be brief." in upstream.requests[0]["instructions"]
    assert "Be kind." in upstream.requests[0]["instructions"]
    with_context = await asyncio.to_thread(client.responses.input_tokens.count, **asked, extra_headers=agent)
    off = {"x-context-inject": "off"}
    without = await asyncio.to_thread(client.responses.input_tokens.count, **asked, extra_headers=off)
    assert with_context.input_tokens > without.input_tokens > 5
    elsewhere = await asyncio.to_thread(
        client.responses.input_tokens.count, **{**asked, "model": CHAT_MODEL}, extra_headers=agent
    )
    assert elsewhere.input_tokens > 5


async def test_compacting_is_refused_with_a_reason(gateway: Client, upstream: Upstream) -> None:
    reply = await gateway.post(orjson.dumps({"model": "m-large", "input": "Hi"}), "/responses/compact")
    assert (reply.status, reply.error["code"]) == (501, "not_implemented")
    assert "sealed" in reply.error["message"]
    assert upstream.requests == []


def test_the_azure_client_gets_responses_and_comes_back_to_them(start: Start, upstream: Upstream) -> None:
    gateway = start(upstream_settings={"responses": True})
    upstream.will(say("Done."), say("Read."), say("Deleted."))
    azure = AzureOpenAI(
        azure_endpoint=gateway.base_url.removesuffix("/v1"), api_key="any", api_version="2025-04-01", max_retries=0
    )
    with azure as client:
        given = client.responses.create(model="m-small", input="Hi", extra_headers={"x-context-agent": "editor"})
        assert (given.output_text, upstream.requests[0]["model"]) == ("Done.", "m-small")
        assert "--- Context [" in upstream.requests[0]["instructions"]
        assert client.responses.retrieve(given.id).instructions is None
        client.responses.delete(given.id)
    assert [one.path for one in upstream.seen] == ["/v1/responses", *["/v1/responses/resp_1"] * 2]


@pytest.mark.parametrize("path", ["/openai/v1/chat/completions?api-version=preview&x=1", "/openai/v1/responses?x=1"])
async def test_azures_newer_paths_are_openais(start: Start, upstream: Upstream, path: str) -> None:
    gateway = start(upstream_settings={"responses": True})
    upstream.will(say("Done."))
    body = {"model": "m-small", "messages": [{"role": "user", "content": "Hi"}], "input": "Hi"}
    url = gateway.base_url.removesuffix("/v1") + path
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        assert (response.status, bool(response.headers["x-context-receipt"])) == (200, True)
    assert upstream.seen[0].path == "/v1/" + path.removeprefix("/openai/v1/").partition("?")[0] + "?x=1"


@pytest.mark.parametrize(
    ("path", "field", "value", "param"),
    [
        ("/responses", "text", {"format": {"type": "text", "new": 1}}, "text.format.new"),
        ("/responses", "text", {"format": {"type": "json_object", "new": 1}}, "text.format.new"),
        ("/responses", "text", {"format": {"type": "new"}}, "text.format"),
        ("/responses", "tool_choice", {"type": "function", "name": "f", "new": 1}, "tool_choice"),
        ("/messages", "mcp_servers", [{"type": "url"}], "mcp_servers"),
    ],
)
async def test_nothing_is_dropped_silently_on_the_way_to_chat(
    gateway: Client, upstream: Upstream, path: str, field: str, value: Any, param: str
) -> None:
    said = {"messages": [{"role": "user", "content": "Hi"}]} if path == "/messages" else {"input": "Hi"}
    reply = await gateway.post(orjson.dumps({"model": CHAT_MODEL, **said, field: value}), path, x_context_agent="bare")
    assert (reply.status, param.encode() in reply.raw) == (400, True)
    assert not upstream.seen


async def test_lists_that_say_nothing_do_not_reach_chat(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    said = {"messages": [{"role": "user", "content": "Hi"}], "stop_sequences": [], "mcp_servers": []}
    reply = await gateway.post(orjson.dumps({"model": CHAT_MODEL, **said}), "/messages", x_context_agent="bare")
    assert (reply.status, "stop" in upstream.requests[0]) == (200, False)


@pytest.mark.parametrize("agent", ["bare", "greeter"])
async def test_head_of_a_response_is_that_of_its_get(gateway: Client, upstream: Upstream, agent: str) -> None:
    upstream.will(say("Done."), say("Read."), say("Read."))
    body = orjson.dumps({"model": "m-large", "input": "Hi"})
    reply = await gateway.post(body, "/responses", x_context_agent=agent)
    url = f"{gateway.base_url}/responses/{reply.json['id']}"
    seen = []
    async with aiohttp.ClientSession() as session:
        for method in ("GET", "HEAD"):
            async with session.request(method, url) as response:
                seen.append((response.status, response.headers["content-length"], len(await response.read())))
    assert upstream.seen[-1].method == "GET"
    (status, length, read), head = seen
    assert (status, length) == (200, str(read))
    assert head == (200, length, 0)


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/chat/completions", "POST"),
        ("/v1/responses", "POST"),
        ("/v1/messages", "POST"),
        ("/v1/messages/count_tokens", "POST"),
        ("/v1/responses/input_tokens", "POST"),
        ("/v1/models", "GET, HEAD"),
        ("/v1/responses/resp_1", "DELETE, GET, HEAD"),
        ("/mcp", "POST"),
    ],
)
async def test_a_method_that_is_not_there_is_answered_with_the_others(gateway: Client, path: str, allow: str) -> None:
    url = gateway.base_url.removesuffix("/v1") + path
    async with aiohttp.ClientSession() as session, session.put(url, data=b"{}") as response:
        assert (response.status, response.headers["allow"]) == (405, allow)
        assert (await response.json())["error"]["message"]
