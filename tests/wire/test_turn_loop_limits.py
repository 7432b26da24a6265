"""How many turns there may be, and when our tools are registered (rules 4 and 5, CONTRACT §3.4 and §4)."""

import asyncio
from typing import Any

import orjson
import pytest

from gateway.tokens import BpeCounter
from tests.support.gateway import STYLE, STYLE_RESULT, WEATHER, Client, ClientReply, Start
from tests.support.upstream import Gate, Upstream, call, chunks, mixed, raw_events, say, tool_call

GET, LIST = "get_context_resource", "list_context_resources"
OWN = tool_call(GET, "own_1", resource_id=STYLE)
OSLO = tool_call("get_weather", "oslo", city="Oslo")


def names(request: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools", ())]


def system(request: dict[str, Any]) -> str:
    return str(request["messages"][0]["content"])


def failed_with(reply: ClientReply, stream: bool, code: str, status: int = 502) -> None:
    """One error and no pretence of an answer, in either form."""
    assert reply.error["code"] == code
    assert set(reply.error) == {"message", "type", "param", "code"}
    assert reply.status == (200 if stream else status)
    if stream:
        assert not reply.done
        assert reply.finish_reasons == []


async def test_the_last_turn_forbids_calls_when_only_we_have_tools(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(call(GET, resource_id=STYLE), say("Done."))
    reply = await gateway.chat(agent="hasty", stream=stream)
    first, last = upstream.requests
    assert reply.text == "Done."
    assert "tool_choice" not in first
    assert (names(last), last["tool_choice"]) == (names(first), "none")


@pytest.mark.parametrize("choice", [None, "auto", "required"])
async def test_the_last_turn_has_the_client_s_tools_only(
    gateway: Client, upstream: Upstream, stream: bool, choice: str | None
):
    said = {"tool_choice": choice} if choice else {}
    upstream.will(call(GET, resource_id=STYLE), mixed(OSLO))
    reply = await gateway.chat(agent="hasty", stream=stream, tools=[WEATHER], **said)
    first, last = upstream.requests
    assert reply.tool_calls == [("get_weather", {"city": "Oslo"})]
    assert (names(first), names(last)) == (["get_weather", GET, LIST], ["get_weather"])
    assert [request.get("tool_choice") for request in (first, last)] == [choice, choice]


async def test_a_single_turn_is_the_last_one(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(say("Done."))
    reply = await gateway.chat(agent="hurried", stream=stream)
    assert (reply.text, upstream.requests[0]["tool_choice"]) == ("Done.", "none")


async def test_five_turns_are_the_default(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(*(call(LIST) for _ in range(4)), say("Done."))
    reply = await gateway.chat(agent="editor", stream=stream)
    assert reply.text == "Done."
    assert [request.get("tool_choice") for request in upstream.requests] == [None, None, None, None, "none"]


async def test_an_own_call_in_the_last_turn_with_text_is_a_stop(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(OWN, text="One."), mixed(OWN, text="Two."))
    reply = await gateway.chat(agent="hasty", stream=stream)
    assert (reply.text, reply.finish_reason, reply.tool_calls) == ("One.\n\nTwo.", "stop", [])
    assert "tool_calls" not in reply.message
    assert not stream or reply.done


async def test_an_own_call_in_the_last_turn_without_text_is_a_loop_limit(
    gateway: Client, upstream: Upstream, stream: bool
):
    upstream.will(mixed(OWN), mixed(OWN))
    failed_with(await gateway.chat(agent="hasty", stream=stream), stream, "loop_limit")


async def test_a_mixed_reply_in_the_last_turn_passes_the_client_s_calls(
    gateway: Client, upstream: Upstream, stream: bool
):
    own = mixed({**OWN, "id": "own_0"})
    upstream.will(own, mixed(OWN, OSLO), say("Done."))
    reply = await gateway.chat(agent="hasty", stream=stream, tools=[WEATHER], session=f"last-{stream}")
    assert (reply.message["tool_calls"], reply.finish_reason) == ([OSLO], "tool_calls")
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Tidy this"},
        {"role": "assistant", "content": None, "tool_calls": [OSLO]},
        {"role": "tool", "tool_call_id": "oslo", "content": "rain"},
    ]
    await gateway.chat(history, agent="hasty", stream=stream, tools=[WEATHER], session=f"last-{stream}")
    answers = {m["tool_call_id"]: m["content"] for m in upstream.requests[2]["messages"] if m["role"] == "tool"}
    assert answers == {"own_0": STYLE_RESULT, "oslo": "rain"}
    calls = [one["id"] for m in upstream.requests[2]["messages"] for one in m.get("tool_calls") or ()]
    assert calls == ["own_0", "oslo"], "a call that was dropped must not wait for an answer"


async def test_a_mixed_reply_in_the_only_turn_passes_the_client_s_calls(
    gateway: Client, upstream: Upstream, stream: bool
):
    upstream.will(mixed(OWN, OSLO, text="Hm."))
    reply = await gateway.chat(agent="hurried", stream=stream, tools=[WEATHER])
    assert (reply.text, reply.message["tool_calls"], reply.finish_reason) == ("Hm.", [OSLO], "tool_calls")
    block = upstream.requests[0]["messages"][0]["content"]
    assert int(reply.headers["x-context-tokens"]) == BpeCounter().count(block, "m-large"), "no schema is sent"


async def test_ours_come_after_the_client_s_tools(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(say("Done."))
    await gateway.chat(agent="editor", stream=stream, tools=[WEATHER])
    request = upstream.requests[0]
    assert names(request) == ["get_weather", GET, LIST]
    assert request["tools"][0] == WEATHER
    assert "tool_choice" not in request
    parameters = request["tools"][1]["function"]["parameters"]
    assert parameters["required"] == ["resource_id"]
    assert parameters["additionalProperties"] is False
    assert {name: one["type"] for name, one in parameters["properties"].items()} == {
        "resource_id": "string",
        "query": "string",
        "offset": "integer",
    }
    assert "strict" not in request["tools"][1]["function"]


async def test_required_stays_in_force_after_an_own_turn(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(OWN), mixed(OSLO))
    reply = await gateway.chat(agent="editor", stream=stream, tools=[WEATHER], tool_choice="required")
    assert reply.tool_calls == [("get_weather", {"city": "Oslo"})]
    assert [request["tool_choice"] for request in upstream.requests] == ["required", "required"]


NAMED = {"type": "function", "function": {"name": "get_weather"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}


@pytest.mark.parametrize(
    "said",
    [
        {"tools": [WEATHER], "tool_choice": "none"},
        {"tools": [WEATHER], "tool_choice": NAMED},
        {"tools": [WEATHER], "tool_choice": ALLOWED},
        {"tool_choice": "auto"},
        {"tool_choice": "required"},
        {"tool_choice": "none"},
        {"n": 2},
        {"functions": [WEATHER["function"]]},
        {"function_call": "auto"},
        {"prediction": {"type": "content", "content": "x"}},
    ],
    ids=lambda said: "-".join(f"{key}={orjson.dumps(value).decode()[:18]}" for key, value in said.items()),
)
async def test_our_tools_are_not_registered(gateway: Client, upstream: Upstream, stream: bool, said: dict[str, Any]):
    upstream.will(say("Done."))
    reply = await gateway.chat(agent="editor", stream=stream, **said)
    request = upstream.requests[0]
    assert reply.text == "Done."
    assert names(request) == [tool["function"]["name"] for tool in said.get("tools", ())]
    assert {key: request.get(key) for key in said} == said
    assert "Write plainly." in system(request)
    assert "Available Reference Materials" not in system(request)
    assert GET not in system(request)


@pytest.mark.parametrize("said", [{"n": 1}, {"n": None}, {"tools": []}, {"tool_choice": None}])
async def test_what_says_nothing_leaves_our_tools_registered(
    gateway: Client, upstream: Upstream, stream: bool, said: dict[str, Any]
):
    upstream.will(say("Done."))
    await gateway.chat(agent="editor", stream=stream, **said)
    assert names(upstream.requests[0]) == [GET, LIST]
    assert "Available Reference Materials" in system(upstream.requests[0])


async def test_an_upstream_without_tools_gets_no_catalogue(start: Start, upstream: Upstream, stream: bool):
    gateway = start(upstream_settings={"tools": False})
    upstream.will(say("Done."))
    await gateway.chat(agent="editor", stream=stream)
    assert "tools" not in upstream.requests[0]
    assert "Write plainly." in system(upstream.requests[0])
    assert "Available Reference Materials" not in system(upstream.requests[0])


async def test_with_nothing_to_fetch_there_are_no_tools(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(say("Done."))
    await gateway.chat(agent="greeter", stream=stream)
    assert "tools" not in upstream.requests[0]
    assert "Be kind." in system(upstream.requests[0])


async def test_an_agent_that_takes_no_part_is_relayed_untouched(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(say("Done."))
    body = b'{ "model":"m", "stream": %s, "messages" :[{"role":"user","content":"Hi"}], "big": 12345678901234567890123}'
    body %= b"true" if stream else b"false"
    reply = await gateway.post(body, x_context_agent="bare")
    assert (reply.text, upstream.bodies[0]) == ("Done.", body)


async def test_a_client_tool_with_our_name_wins(gateway: Client, upstream: Upstream, stream: bool):
    theirs = {"type": "function", "function": {"name": GET, "parameters": {"type": "object"}}}
    own = tool_call(GET + "_2", "own_1", resource_id=STYLE)
    upstream.will(mixed(own), mixed(tool_call(GET, "theirs", id=5)))
    reply = await gateway.chat(agent="editor", stream=stream, tools=[theirs])
    assert reply.tool_calls == [(GET, {"id": 5})]
    request = upstream.requests[0]
    assert names(request) == [GET, GET + "_2", LIST]
    assert f"Use {GET}_2 with an ID." in system(request)
    assert upstream.requests[1]["messages"][-1]["content"] == STYLE_RESULT


async def test_a_client_tool_that_begins_like_ours_is_the_client_s(gateway: Client, upstream: Upstream, stream: bool):
    theirs = {"type": "function", "function": {"name": GET + "_by_name", "parameters": {"type": "object"}}}
    upstream.will(mixed(tool_call(GET + "_by_name", "theirs", id=5)))
    reply = await gateway.chat(agent="editor", stream=stream, tools=[theirs])
    assert reply.tool_calls == [(GET + "_by_name", {"id": 5})]


async def test_a_call_cut_short_by_the_length_limit_is_not_run(gateway: Client, upstream: Upstream, stream: bool):
    half = {"id": "own_1", "type": "function", "function": {"name": GET, "arguments": '{"resource_id": "hou'}}
    upstream.will(mixed(half, text="So far").but(finish_reason="length"))
    reply = await gateway.chat(agent="editor", stream=stream)
    assert (reply.text, reply.finish_reason, reply.tool_calls) == ("So far", "length", [])
    assert GET.encode() not in reply.raw


async def test_a_finish_reason_of_stop_does_not_hide_an_own_call(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(OWN).but(finish_reason="stop"), say("Done."))
    assert (await gateway.chat(agent="editor", stream=stream)).text == "Done."


LIMITS = {"reply_bytes": 500_000, "drain_seconds": 1}  # more than comes with the first read


@pytest.mark.parametrize("tools", [[], [WEATHER]])
async def test_a_reply_that_is_too_long_is_an_error(start: Start, upstream: Upstream, stream: bool, tools: list[Any]):
    gateway = start(limits=LIMITS)
    upstream.will(say("x" * 1_000_000).but(pieces=5_000))
    reply = await gateway.chat(agent="editor", stream=stream, **({"tools": tools} if tools else {}))
    failed_with(reply, stream, "upstream_invalid")
    assert "500000 bytes" in reply.error["message"]


async def test_all_turns_count_together(start: Start, upstream: Upstream, stream: bool):
    gateway = start(limits=LIMITS)
    turn = mixed(OWN, text="x" * 200_000).but(pieces=4_000)
    upstream.will(turn, turn, turn)
    reply = await gateway.chat(agent="editor", stream=stream)
    failed_with(reply, stream, "upstream_invalid")
    assert "500000 bytes in 3 turn" in reply.error["message"]


async def test_an_endless_stream_is_cut_and_left(start: Start, upstream: Upstream):
    gateway = start(limits=LIMITS)
    gate = Gate()  # the upstream would go on
    too_much = [chunk for _ in range(500) for chunk in chunks({"content": "x" * 1_000})]
    upstream.will(raw_events([*too_much, gate]))
    reply = await gateway.chat(agent="editor", stream=True)
    failed_with(reply, True, "upstream_invalid")
    assert len(reply.raw) <= 501_000
    gone = await asyncio.to_thread(upstream.seen[0].gone.wait, 5)
    gate.open()
    assert gone


async def test_a_stream_that_goes_on_after_its_end_is_complete(start: Start, upstream: Upstream):
    gateway = start(limits=LIMITS)
    said = chunks({"role": "assistant", "content": "Done."}, finish_reason="stop")
    forever = [piece for _ in range(200) for piece in (b": more\n\n" * 100, 0.05)]
    upstream.will(raw_events([*said, b"data: [DONE]\n\n", *forever]))
    async with asyncio.timeout(5):
        reply = await gateway.chat(agent="editor", stream=True)
    assert (reply.text, reply.done, reply.errors) == ("Done.", True, [])


async def test_a_relayed_stream_may_be_of_any_length(start: Start, upstream: Upstream):
    gateway = start(limits=LIMITS)
    upstream.will(say("x" * 1_000_000).but(pieces=5_000))
    reply = await gateway.chat(agent="greeter", stream=True)
    assert (len(reply.text), reply.done) == (1_000_000, True)
