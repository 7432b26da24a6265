"""Own calls: run by the gateway, never seen by the client (DESIGN §3 rule 1, CONTRACT §3.5 and §4)."""

from typing import Any

import orjson
import pytest

from tests.support.gateway import LONG_TEXT, NAMES, NAMES_RESULT, STYLE, STYLE_RESULT, WEATHER, Client
from tests.support.upstream import Upstream, call, mixed, say, tool_call

GET, LIST = "get_context_resource", "list_context_resources"


def results(request: dict[str, Any]) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


async def test_our_tool_call_never_reaches_the_client(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(call(GET, resource_id=STYLE), say("Done."))
    reply = await gateway.chat("Tidy this", agent="editor", stream=stream)
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("Done.", [], "stop")
    assert b"get_context_resource" not in reply.raw
    assert "tool_calls" not in reply.message
    asked, answered = upstream.requests[1]["messages"][-2:]
    assert asked["tool_calls"][0]["function"]["name"] == GET
    assert answered == {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": STYLE_RESULT}


async def test_parallel_own_calls_are_answered_in_call_order(gateway: Client, upstream: Upstream, stream: bool):
    calls = [tool_call(GET, "c1", resource_id=NAMES), tool_call(LIST, "c2"), tool_call(GET, "c3", resource_id=STYLE)]
    upstream.will(mixed(*calls), say("Done."))
    reply = await gateway.chat(agent="editor", stream=stream)
    assert reply.text == "Done."
    asked, *answered = upstream.requests[1]["messages"][-4:]
    assert [one["id"] for one in asked["tool_calls"]] == ["c1", "c2", "c3"]
    assert [one["tool_call_id"] for one in answered] == ["c1", "c2", "c3"]
    assert [answered[0]["content"], answered[2]["content"]] == [NAMES_RESULT, STYLE_RESULT]


async def test_several_own_turns_follow_each_other(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(call(LIST), call(GET, resource_id=STYLE), call(GET, resource_id=NAMES), say("Done."))
    reply = await gateway.chat(agent="editor", stream=stream)
    assert reply.text == "Done."
    assert results(upstream.requests[3])[1:] == [STYLE_RESULT, NAMES_RESULT]
    first = upstream.requests[0]["messages"]
    assert all(request["messages"][: len(first)] == first for request in upstream.requests)


async def test_the_texts_of_several_turns_are_joined_by_a_blank_line(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(tool_call(GET, resource_id=STYLE), text="Let me look."), say("It says: commas."))
    reply = await gateway.chat(agent="editor", stream=stream)
    assert reply.text == "Let me look.\n\nIt says: commas."


@pytest.mark.parametrize("text", [None, ""])
async def test_a_last_turn_without_text_keeps_that_of_the_others(
    gateway: Client, upstream: Upstream, stream: bool, text: str | None
):
    own, oslo = tool_call(GET, resource_id=STYLE), tool_call("get_weather", "oslo", city="Oslo")
    upstream.will(mixed(own, text="Let me look."), mixed(oslo, text=text))
    reply = await gateway.chat(agent="editor", stream=stream, tools=[WEATHER])
    assert (reply.text, reply.tool_calls) == ("Let me look.", [("get_weather", {"city": "Oslo"})])


async def test_text_before_an_own_call_stays_in_the_transcript(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(tool_call(GET, resource_id=STYLE), text="Let me look."), say("Fine."))
    await gateway.chat(agent="editor", stream=stream)
    assert upstream.requests[1]["messages"][-2]["content"] == "Let me look."


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
async def test_a_json_answer_shows_the_last_text_only(gateway: Client, upstream: Upstream, stream: bool, kind: str):
    upstream.will(mixed(tool_call(GET, resource_id=STYLE), text="Let me look."), say('{"ok": true}'))
    wanted = {"type": kind, "json_schema": {"name": "x", "schema": {"type": "object"}}}
    reply = await gateway.chat(agent="editor", stream=stream, response_format=wanted)
    assert reply.text == '{"ok": true}'
    assert reply.message["role"] == "assistant"
    assert upstream.requests[1]["messages"][-2]["content"] == "Let me look."


async def test_a_text_response_format_still_joins(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(tool_call(GET, resource_id=STYLE), text="One."), say("Two."))
    reply = await gateway.chat(agent="editor", stream=stream, response_format={"type": "text"})
    assert reply.text == "One.\n\nTwo."


async def test_reasoning_is_shown_and_goes_back(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(
        mixed(tool_call(GET, resource_id=STYLE), reasoning_content="I need the rules."),
        say("Done.", reasoning_content="Now I know."),
    )
    reply = await gateway.chat(agent="editor", stream=stream)
    assert reply.message["reasoning_content"] == "I need the rules.\n\nNow I know."
    assert upstream.requests[1]["messages"][-2]["reasoning_content"] == "I need the rules."


async def test_the_assistant_message_goes_back_exactly_as_received(gateway: Client, upstream: Upstream, stream: bool):
    signed = {**tool_call(GET, "c1", resource_id=STYLE), "extra_content": {"google": {"thought_signature": "c2ln"}}}
    blocks = [{"type": "thinking", "thinking": "Hm.", "signature": "abc"}, {"type": "redacted_thinking", "data": "xyz"}]
    answer = mixed(signed, text="Wait.", thinking_blocks=blocks, x_unknown={"deep": [1, 2.5, None]})
    upstream.will(answer, say("Done."))
    await gateway.chat(agent="editor", stream=stream)
    assert upstream.requests[1]["messages"][-2] == answer.message


async def test_a_whole_reply_goes_back_byte_for_byte(gateway: Client, upstream: Upstream):
    answer = mixed(tool_call(GET, "c1", resource_id=STYLE), big=123456789012345678, f=1.0, e="é\u2028")
    upstream.will(answer, say("Done."))
    await gateway.chat(agent="editor")
    assert orjson.dumps(answer.message) in upstream.bodies[1]


async def test_the_client_fields_go_up_in_every_turn(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(call(GET, resource_id=STYLE), say("Done."))
    await gateway.chat(agent="editor", stream=stream, temperature=0.25, seed=7, x_new={"a": 1})
    for request in upstream.requests:
        assert (request["temperature"], request["seed"], request["x_new"]) == (0.25, 7, {"a": 1})
        assert bool(request.get("stream")) == stream
        assert "context" not in request


async def test_an_idempotency_key_stands_for_the_first_turn_only(gateway: Client, upstream: Upstream):
    upstream.will(call(GET, resource_id=STYLE), say("Done."))
    body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    await gateway.post(body, x_context_agent="editor", idempotency_key="k1", openai_beta="org")
    assert [headers.get("idempotency-key") for headers in upstream.headers] == ["k1", None]
    assert [headers.get("openai-beta") for headers in upstream.headers] == ["org", "org"]


async def test_replies_tell_what_was_injected(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(call(GET, resource_id=STYLE), say("Done."))
    headers = (await gateway.chat(agent="editor", stream=stream)).headers
    assert headers["x-context-injected"] == "1"
    assert int(headers["x-context-tokens"]) > 0
    assert {"x-context-receipt", "x-context-snapshot"} <= set(headers)
    assert "x-context-degraded" not in headers


async def test_a_turn_without_own_calls_passes_untouched(gateway: Client, upstream: Upstream):
    answer = say("Hello.", x_field={"kept": True}).but(top={"system_fingerprint": "fp", "service_tier": "default"})
    upstream.will(answer)
    reply = await gateway.chat(agent="editor")
    assert reply.raw == answer.respond({}, 1).pieces[0]


async def test_a_stream_without_own_calls_passes_byte_for_byte(gateway: Client, upstream: Upstream):
    answer = say("Hello.", x_field={"kept": True})
    upstream.will(answer)
    reply = await gateway.chat(agent="editor", stream=True)
    sent = answer.respond({"stream": True}, 1).pieces
    assert reply.raw == b"".join(piece for piece in sent if isinstance(piece, bytes))


async def got(gateway: Client, upstream: Upstream, stream: bool, name: str, arguments: str) -> str:
    """The result that the model sees for one call with exactly these arguments."""
    one = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    upstream.will(mixed(one), say("Done."))
    reply = await gateway.chat(agent="editor", stream=stream)
    assert reply.text == "Done."
    (result,) = results(upstream.requests[1])
    return result


@pytest.mark.parametrize(
    ("offset", "footer"),
    [
        (None, f"\n\n[characters 0-8000 of {len(LONG_TEXT)}; next offset: 8000]"),
        (8000, f"\n\n[characters 8000-16000 of {len(LONG_TEXT)}; next offset: 16000]"),
        (24000, f"\n\n[characters 24000-{len(LONG_TEXT)} of {len(LONG_TEXT)}]"),
    ],
)
async def test_long_resources_come_in_pages(
    gateway: Client, upstream: Upstream, stream: bool, offset: int | None, footer: str
):
    arguments = {"resource_id": "house/handbook"} | ({} if offset is None else {"offset": offset})
    result = await got(gateway, upstream, stream, GET, orjson.dumps(arguments).decode())
    start = offset or 0
    assert result == "[Handbook]\n" + LONG_TEXT[start : start + 8000] + footer


async def test_offset_zero_of_a_short_resource_tells_where_it_ends(gateway: Client, upstream: Upstream, stream: bool):
    result = await got(gateway, upstream, stream, GET, '{"resource_id": "house/style", "offset": 0}')
    assert result == STYLE_RESULT + "\n\n[characters 0-21 of 21]"


async def test_an_unknown_resource_is_said_to_be_unavailable(gateway: Client, upstream: Upstream, stream: bool):
    result = await got(gateway, upstream, stream, GET, '{"resource_id": "house/nothing"}')
    assert result == "Error: no resource 'house/nothing' is available."


@pytest.mark.parametrize(
    "arguments",
    ["", "{}", "{", "[]", '"x"', '{"resource_id": 5}', '{"resource_id": "house/style", "x": 1}', '{"offset": -1}'],
)
async def test_bad_arguments_are_an_error_that_the_loop_survives(
    gateway: Client, upstream: Upstream, stream: bool, arguments: str
):
    assert (await got(gateway, upstream, stream, GET, arguments)).startswith("Error: ")


@pytest.mark.parametrize("arguments", ["", "{}", "  ", '{"query": null}'])
async def test_a_list_without_arguments_lists_everything(
    gateway: Client, upstream: Upstream, stream: bool, arguments: str
):
    listed = orjson.loads(await got(gateway, upstream, stream, LIST, arguments))
    assert listed["total"] == 3
    assert listed["resources"][0] == {
        "id": "house/style",
        "name": "House style",
        "type": "text",
        "description": "Punctuation and spelling",
    }
    assert [one["id"] for one in listed["resources"]] == ["house/style", "house/names", "house/handbook"]


async def test_a_list_with_a_query_finds_what_it_names(gateway: Client, upstream: Upstream, stream: bool):
    listed = orjson.loads(await got(gateway, upstream, stream, LIST, '{"query": "product names"}'))
    assert listed["resources"][0]["id"] == NAMES
    assert listed["total"] == len(listed["resources"]) < 3
