"""Providers differ in how they stream calls; the loop reads them all (rule 6)."""

import json
from typing import Any

import orjson
import pytest

from tests.support.gateway import NAMES, NAMES_RESULT, STYLE, STYLE_RESULT, WEATHER, Client, ClientReply
from tests.support.upstream import HEAD, Upstream, call, chunks, mixed, raw_events, say, sse, tool_call

GET = "get_context_resource"
DONE = b"data: [DONE]\n\n"
STYLE_ARGUMENTS, NAMES_ARGUMENTS = ('{"resource_id":"house/style"}', '{"resource_id":"house/names"}')
OSLO_ARGUMENTS = '{"city":"Oslo"}'
ROLE = {"role": "assistant", "content": None}


def part(name: Any = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    """A delta of one call; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    return fields | {"function": {key: value for key, value in function.items() if value is not None}}


def turn(*deltas: dict[str, Any] | list[dict[str, Any]]) -> list[Any]:
    """A turn of a role, deltas of calls (a list: several in one chunk), a finish and [DONE]."""
    calls = [{"tool_calls": delta if isinstance(delta, list) else [delta]} for delta in deltas]
    return [*chunks(ROLE, *calls), *chunks({}, finish_reason="tool_calls"), DONE]


def per_byte(arguments: str) -> list[str]:
    return list(arguments)


OWN_THEN_OWN = {
    "index and id": [
        part(GET, "", index=0, id="a", type="function"),
        part(None, STYLE_ARGUMENTS, index=0),
        part(GET, "", index=1, id="b", type="function"),
        part(None, NAMES_ARGUMENTS, index=1),
    ],
    "interleaved": [
        part(GET, "", index=0, id="a"),
        part(GET, "", index=1, id="b"),
        part(None, STYLE_ARGUMENTS[:9], index=0),
        part(None, NAMES_ARGUMENTS, index=1),
        part(None, STYLE_ARGUMENTS[9:], index=0),
    ],
    "one chunk": [[part(GET, STYLE_ARGUMENTS, index=0, id="a"), part(GET, NAMES_ARGUMENTS, index=1, id="b")]],
    "no index": [part(GET, STYLE_ARGUMENTS, id="a"), part(GET, NAMES_ARGUMENTS, id="b")],
    "no index, in fragments": [
        part(GET, "", id="a"),
        part(None, STYLE_ARGUMENTS[:5]),
        part(None, STYLE_ARGUMENTS[5:]),
        part(GET, "", id="b"),
        part(None, NAMES_ARGUMENTS),
    ],
    "index always 0": [part(GET, STYLE_ARGUMENTS, index=0, id="a"), part(GET, NAMES_ARGUMENTS, index=0, id="b")],
    "index always 0, in fragments": [
        part(GET, "", index=0, id="a"),
        part(None, STYLE_ARGUMENTS, index=0),
        part(GET, "", index=0, id="b"),
        part(None, NAMES_ARGUMENTS, index=0),
    ],
    "index from 1": [part(GET, STYLE_ARGUMENTS, index=1, id="a"), part(GET, NAMES_ARGUMENTS, index=2, id="b")],
    "ids repeated": [
        part(GET, STYLE_ARGUMENTS[:7], index=0, id="a"),
        part(None, STYLE_ARGUMENTS[7:], index=0, id="a"),
        part(GET, NAMES_ARGUMENTS[:7], index=1, id="b"),
        part(None, NAMES_ARGUMENTS[7:], index=1, id="b"),
    ],
    "names and ids repeated, no index": [
        part(GET, STYLE_ARGUMENTS[:7], id="a"),
        part(GET, STYLE_ARGUMENTS[7:], id="a"),
        part(GET, NAMES_ARGUMENTS[:7], id="b"),
        part(GET, NAMES_ARGUMENTS[7:], id="b"),
    ],
    "name split": [
        part("get_", None, index=0, id="a"),
        part("context_", None, index=0),
        part("resource", None, index=0),
        part(None, STYLE_ARGUMENTS, index=0),
        part("get_context_", None, index=1, id="b"),
        part("resource", NAMES_ARGUMENTS, index=1),
    ],
    "arguments per byte": [
        part(GET, "", index=0, id="a"),
        *(part(None, byte, index=0) for byte in per_byte(STYLE_ARGUMENTS)),
        part(GET, "", index=1, id="b"),
        *(part(None, byte, index=1) for byte in per_byte(NAMES_ARGUMENTS)),
    ],
    "arguments as objects": [
        part(GET, {"resource_id": STYLE}, index=0, id="a"),
        part(GET, {"resource_id": NAMES}, index=1, id="b"),
    ],
    "arguments as an object, then nothing": [
        part(GET, {"resource_id": STYLE}, index=0, id="a"),
        part(None, "", index=0),
        part(GET, {"resource_id": NAMES}, index=1, id="b"),
    ],
    "nulls for what goes on": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": GET, "arguments": None}},
        {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": STYLE_ARGUMENTS}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": GET, "arguments": None}},
        {"index": 1, "id": None, "type": None, "function": {"name": None, "arguments": NAMES_ARGUMENTS}},
    ],
    "empty strings for what goes on": [
        {"index": 0, "id": "a", "function": {"name": GET, "arguments": ""}},
        {"index": 0, "id": "", "function": {"name": "", "arguments": STYLE_ARGUMENTS}},
        {"index": 1, "id": "b", "function": {"name": GET, "arguments": ""}},
        {"index": 1, "id": "", "function": {"name": "", "arguments": NAMES_ARGUMENTS}},
    ],
    "no ids": [part(GET, STYLE_ARGUMENTS, index=0), part(GET, NAMES_ARGUMENTS, index=1)],
    "no ids, no index": [part(GET, STYLE_ARGUMENTS), part(GET, NAMES_ARGUMENTS)],
    "no ids, index always 0": [part(GET, STYLE_ARGUMENTS, index=0), part(GET, NAMES_ARGUMENTS, index=0)],
    "no ids, no index, one chunk": [[part(GET, STYLE_ARGUMENTS), part(GET, NAMES_ARGUMENTS)]],
}


@pytest.mark.parametrize("deltas", OWN_THEN_OWN.values(), ids=OWN_THEN_OWN)
async def test_two_own_calls_are_read_however_they_come(gateway: Client, upstream: Upstream, deltas: list[Any]):
    upstream.will(raw_events(turn(*deltas)), say("Done."))
    reply = await gateway.chat(agent="editor", stream=True)
    assert (reply.text, reply.tool_calls, reply.finish_reason, reply.done) == ("Done.", [], "stop", True)
    asked, *answered = upstream.requests[1]["messages"][-3:]
    assert [one["content"] for one in answered] == [STYLE_RESULT, NAMES_RESULT]
    ids = [one["id"] for one in asked["tool_calls"]]
    assert [one["tool_call_id"] for one in answered] == ids
    assert len(set(ids)) == 2
    assert all(ids)
    assert [one["function"]["name"] for one in asked["tool_calls"]] == [GET, GET]


CLIENT_AROUND_OWN = {
    "index and id": [
        part("get_weather", "", index=0, id="a"),
        part(None, OSLO_ARGUMENTS, index=0),
        part(GET, STYLE_ARGUMENTS, index=1, id="b"),
        part("get_weather", OSLO_ARGUMENTS, index=2, id="c"),
    ],
    "no index": [
        part("get_weather", OSLO_ARGUMENTS, id="a"),
        part(GET, STYLE_ARGUMENTS, id="b"),
        part("get_weather", OSLO_ARGUMENTS, id="c"),
    ],
    "index always 0": [
        part("get_weather", OSLO_ARGUMENTS, index=0, id="a"),
        part(GET, STYLE_ARGUMENTS, index=0, id="b"),
        part("get_weather", OSLO_ARGUMENTS, index=0, id="c"),
    ],
    "one chunk": [
        [
            part("get_weather", OSLO_ARGUMENTS, index=0, id="a"),
            part(GET, STYLE_ARGUMENTS, index=1, id="b"),
            part("get_weather", OSLO_ARGUMENTS, index=2, id="c"),
        ]
    ],
    "names split": [
        part("get_", None, index=0, id="a"),
        part("weather", None, index=0),
        part(None, OSLO_ARGUMENTS, index=0),
        part("get_", None, index=1, id="b"),
        part("context_resource", STYLE_ARGUMENTS, index=1),
        part("get_", None, index=2, id="c"),
        part("weather", OSLO_ARGUMENTS, index=2),
    ],
    "interleaved": [
        part("get_weather", "", index=0, id="a"),
        part(GET, "", index=1, id="b"),
        part("get_weather", "", index=2, id="c"),
        part(None, OSLO_ARGUMENTS, index=2),
        part(None, STYLE_ARGUMENTS, index=1),
        part(None, OSLO_ARGUMENTS, index=0),
    ],
}


@pytest.mark.parametrize("deltas", CLIENT_AROUND_OWN.values(), ids=CLIENT_AROUND_OWN)
async def test_a_mixed_turn_is_sorted_however_it_comes(gateway: Client, upstream: Upstream, deltas: list[Any]):
    upstream.will(raw_events(turn(*deltas)))
    reply = await gateway.chat(agent="editor", stream=True, tools=[WEATHER])
    assert reply.tool_calls == [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Oslo"})]
    assert [one["id"] for one in reply.message["tool_calls"]] == ["a", "c"]
    assert (reply.finish_reason, reply.done) == ("tool_calls", True)
    assert GET.encode() not in reply.raw


async def test_a_client_call_with_the_finish_in_one_chunk(gateway: Client, upstream: Upstream):
    packed = chunks({**ROLE, "tool_calls": [part("get_", OSLO_ARGUMENTS, index=0, id="a")]}, finish_reason="tool_calls")
    upstream.will(raw_events([*packed, DONE]))
    reply = await gateway.chat(agent="editor", stream=True, tools=[WEATHER])
    assert (reply.tool_calls, reply.finish_reason) == ([("get_", {"city": "Oslo"})], "tool_calls")


async def test_an_own_call_with_role_text_and_finish_in_one_chunk(gateway: Client, upstream: Upstream):
    calls = [part(GET, STYLE_ARGUMENTS, index=0, id="a")]
    packed = chunks({"role": "assistant", "content": "Hm.", "tool_calls": calls}, finish_reason="tool_calls")
    upstream.will(raw_events([*packed, DONE]), say("Done."))
    reply = await gateway.chat(agent="editor", stream=True)
    assert (reply.text, reply.finish_reason) == ("Hm.\n\nDone.", "stop")
    assert [delta["role"] for delta in reply.deltas if delta.get("role")] == ["assistant"]


@pytest.mark.parametrize("way", ["an event per write", "one write", "spaces", "crlf"])
@pytest.mark.parametrize("turns", [1, 2])
async def test_a_role_that_is_repeated_in_every_chunk_is_shown_once(
    gateway: Client, upstream: Upstream, way: str, turns: int
):
    words = ["Well", ", ", "", "the ", "role", ' is "role":"x".']
    told = chunks(
        *({"role": "assistant", "content": word} for word in words), {"role": "assistant"}, finish_reason="stop"
    )
    newline = b"\r\n" if way == "crlf" else b"\n"
    pieces = [sse(json.dumps(one).encode() if way == "spaces" else one, newline) for one in told] + [DONE]
    repeated = raw_events([b"".join(pieces)] if way == "one write" else pieces)
    upstream.will(*[call(GET, resource_id=STYLE)] * (turns - 1), repeated)
    reply = await gateway.chat(agent="editor", stream=True)
    assert [delta["role"] for delta in reply.deltas if delta.get("role")] == ["assistant"]
    assert (reply.text, reply.finish_reason, reply.done) == ("".join(words), "stop", True)


async def test_a_role_that_is_repeated_beside_calls_is_shown_once(gateway: Client, upstream: Upstream):
    oslo = part("get_weather", OSLO_ARGUMENTS, index=0, id="oslo", type="function")
    deltas: list[dict[str, Any]] = [{"content": "Hm."}, {"content": " So."}, {"tool_calls": [oslo]}, {}]
    told = chunks(*({"role": "assistant", **one} for one in deltas), finish_reason="tool_calls")
    upstream.will(raw_events([*told, DONE]))
    reply = await gateway.chat(agent="editor", stream=True, tools=[WEATHER])
    assert [delta["role"] for delta in reply.deltas if delta.get("role")] == ["assistant"]
    assert (reply.text, reply.tool_calls) == ("Hm. So.", [("get_weather", {"city": "Oslo"})])


async def test_a_relay_repeats_the_role_as_the_upstream_does(gateway: Client, upstream: Upstream):
    told = chunks({"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}, finish_reason="stop")
    upstream.will(raw_events([*told, DONE]))
    reply = await gateway.chat(agent="bare", stream=True)
    assert reply.raw == b"".join(map(sse, told)) + DONE


async def test_an_own_call_whose_arguments_never_come(gateway: Client, upstream: Upstream):
    upstream.will(raw_events(turn(part("list_context_resources", None, index=0, id="a"))), say("Done."))
    reply = await gateway.chat(agent="editor", stream=True)
    assert reply.text == "Done."
    asked, answered = upstream.requests[1]["messages"][-2:]
    assert asked["tool_calls"][0]["function"] == {"name": "list_context_resources", "arguments": ""}
    assert orjson.loads(answered["content"])["total"] == 3


async def test_a_whole_reply_s_own_call_without_id_gets_one(gateway: Client, upstream: Upstream):
    nameless = {"type": "function", "function": {"name": GET, "arguments": STYLE_ARGUMENTS}}
    upstream.will(mixed(nameless, dict(nameless)), say("Done."))
    await gateway.chat(agent="editor")
    asked, *answered = upstream.requests[1]["messages"][-3:]
    ids = [one["id"] for one in asked["tool_calls"]]
    assert [one["tool_call_id"] for one in answered] == ids
    assert len(set(ids)) == 2


async def test_a_whole_reply_s_arguments_may_be_an_object(gateway: Client, upstream: Upstream):
    unusual = {"id": "a", "type": "function", "function": {"name": GET, "arguments": {"resource_id": STYLE}}}
    upstream.will(mixed(unusual), say("Done."))
    await gateway.chat(agent="editor")
    assert upstream.requests[1]["messages"][-1]["content"] == STYLE_RESULT
    assert upstream.requests[1]["messages"][-2]["tool_calls"] == [unusual]


USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
async def test_usage_in_the_finish_chunk_is_summed(gateway: Client, upstream: Upstream, asked: bool):
    own = turn(part(GET, STYLE_ARGUMENTS, index=0, id="a"))
    own[-2] = {**own[-2], "usage": USAGE}
    last = [*chunks({**ROLE, "content": "Done."}), *chunks({}, finish_reason="stop", usage=USAGE), DONE]
    upstream.will(raw_events(own), raw_events(last))
    said: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
    reply = await gateway.chat(agent="editor", stream=True, **said)
    assert reply.usage == {"prompt_tokens": 6, "completion_tokens": 2, "total_tokens": 8}


@pytest.mark.parametrize("odd", [[], "none", 5, True], ids=str)
@pytest.mark.parametrize("stream", [False, True])
async def test_usage_that_is_no_object_counts_as_none(gateway: Client, upstream: Upstream, odd: Any, stream: bool):
    upstream.will(call(GET, resource_id=STYLE).but(usage=odd), say("Done.").but(usage=USAGE))
    reply = await gateway.chat(agent="editor", stream=stream, stream_options={"include_usage": True})
    assert (reply.text, reply.usage, reply.errors) == ("Done.", USAGE, [])
    upstream.will(call(GET, resource_id=STYLE).but(usage=USAGE), say("Done.").but(usage=odd))
    reply = await gateway.chat(agent="editor", stream=stream, stream_options={"include_usage": True})
    assert (reply.text, reply.usage, reply.errors) == ("Done.", USAGE, [])


def pack(*calls: dict[str, Any], **delta: Any) -> list[Any]:
    """A turn in one chunk: its calls, its finish and its usage."""
    return [*chunks({**ROLE, **delta, "tool_calls": [*calls]}, finish_reason="tool_calls", usage=USAGE), DONE]


async def test_usage_in_one_chunk_with_calls_and_finish_is_told_once(gateway: Client, upstream: Upstream):
    own = part(GET, STYLE_ARGUMENTS, index=0, id="a", type="function")
    oslo = part("get_weather", OSLO_ARGUMENTS, index=1, id="oslo", type="function")
    upstream.will(raw_events(pack(own, content="Hm.")), raw_events(pack(own, oslo)))
    reply = await gateway.chat(agent="editor", stream=True, tools=[WEATHER])
    assert (reply.text, reply.tool_calls) == ("Hm.", [("get_weather", {"city": "Oslo"})])
    assert reply.usage == {"prompt_tokens": 6, "completion_tokens": 2, "total_tokens": 8}
    assert [event.get("usage") for event in reply.events][-1] == reply.usage


async def test_a_stream_without_done_after_its_finish_is_complete(gateway: Client, upstream: Upstream):
    own = turn(part(GET, STYLE_ARGUMENTS, index=0, id="a"))[:-1]
    upstream.will(raw_events(own), raw_events(chunks({"content": "Do"}, {"content": "ne."}, finish_reason="stop")))
    reply = await gateway.chat(agent="editor", stream=True)
    assert (reply.text, reply.finish_reason, reply.done, reply.errors) == ("Done.", "stop", True, [])


@pytest.mark.parametrize("last", [b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]\n\n", b"data: [DONE]\r\n\r\n"])
@pytest.mark.parametrize("agent", ["editor", "bare"])
async def test_done_is_understood_however_it_is_written(gateway: Client, upstream: Upstream, last: bytes, agent: str):
    upstream.will(raw_events([*chunks({**ROLE, "content": "Done."}), *chunks({}, finish_reason="stop"), last]))
    reply = await gateway.chat(agent=agent, stream=True)
    assert (reply.text, reply.errors) == ("Done.", [])
    assert reply.payloads.count(b"[DONE]") == 1
    assert reply.done


async def test_crlf_comments_and_event_lines_are_understood(gateway: Client, upstream: Upstream):
    own = mixed(tool_call(GET, resource_id=STYLE), text="Hm.").but(newline=b"\r\n")
    events = [b": keep-alive\r\n\r\n", b"event: message\r\n" + sse(chunks({**ROLE, "content": "Do"})[0], b"\r\n")]
    events += [
        b"id: 7\nretry: 10\ndata: " + orjson.dumps(chunks({"content": "ne."}, finish_reason="stop")[0]) + b"\n\n"
    ]
    upstream.will(own, raw_events([*events, b": bye\n\n", DONE]))
    reply = await gateway.chat(agent="editor", stream=True)
    assert (reply.text, reply.finish_reason, reply.done) == ("Hm.\n\nDone.", "stop", True)


async def test_a_chunk_over_several_data_lines_is_one(gateway: Client, upstream: Upstream):
    chunk = orjson.dumps(chunks({**ROLE, "content": "Done."}, finish_reason="stop")[0])
    at = chunk.index(b'"choices"')
    upstream.will(
        call(GET, resource_id=STYLE), raw_events([b"data: " + chunk[:at] + b"\ndata: " + chunk[at:] + b"\n\n", DONE])
    )
    reply = await gateway.chat(agent="editor", stream=True)
    assert (reply.text, reply.finish_reason) == ("Done.", "stop")


AZURE = {
    "id": "",
    "created": 0,
    "model": "",
    "object": "",
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0}],
}


async def test_azure_s_first_chunk_does_not_name_the_stream(gateway: Client, upstream: Upstream):
    own = turn(part(GET, STYLE_ARGUMENTS, index=0, id="a"))
    upstream.will(
        raw_events([AZURE, 0.05, *own]),
        raw_events([AZURE, *chunks({**ROLE, "content": "Done."}, finish_reason="stop"), DONE]),
    )
    reply = await gateway.chat(agent="editor", stream=True)
    assert reply.text == "Done."
    named = [event for event in reply.events if event["choices"]]
    assert {(event["id"], event["model"]) for event in named} == {("chatcmpl-1", HEAD["model"])}
    assert sum("prompt_filter_results" in event for event in reply.events) == 1


async def test_line_separators_inside_json_do_not_cut_events(gateway: Client, upstream: Upstream, stream: bool):
    text = "a\u2028b\u0085c\u2029d é 🎉"
    upstream.will(mixed(tool_call(GET, resource_id=STYLE), text=text), say(text).but(split=1))
    reply: ClientReply = await gateway.chat(agent="editor", stream=stream)
    assert reply.text == f"{text}\n\n{text}"


@pytest.mark.parametrize("way", [{"packed": True}, {"split": 1}, {"split": 64}, {"pieces": 1}, {"newline": b"\r\n"}])
async def test_how_bytes_are_cut_does_not_matter(gateway: Client, upstream: Upstream, way: dict[str, Any]):
    upstream.will(mixed(tool_call(GET, resource_id=STYLE), text="Hm.").but(**way), say("Done.").but(**way))
    reply = await gateway.chat(agent="editor", stream=True)
    assert (reply.text, reply.tool_calls, reply.finish_reason, reply.done) == ("Hm.\n\nDone.", [], "stop", True)
