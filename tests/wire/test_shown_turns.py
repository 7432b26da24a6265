"""What a client sees of an answer in several turns: usage nobody asked for, JSON, logprobs, the last text only."""

import json
from typing import Any

import pytest

from tests.support.gateway import POLICIES, STYLE, WEATHER, Client, Start
from tests.support.upstream import Answer, Gate, Upstream, chunks, mixed, raw_events, reply, say, sse, tool_call

OWN = tool_call("get_context_resource", "own_1", resource_id=STYLE)
JSON: Any = {"type": "json_object"}
DONE = sse(b"[DONE]")
LAST = POLICIES | {"agents": {"last": {"contexts": ["house"], "join": "last"}, "all": {"contexts": ["house"]}}}


def spent(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}


def with_usage(answer: list[dict[str, Any]], tokens: int) -> Any:
    """A stream whose last chunk tells its usage whether or not it was asked for."""
    return raw_events([*answer[:-1], answer[-1] | {"usage": spent(tokens)}, DONE])


CALLING = {"tool_calls": [{"index": 0, **OWN}]}


async def test_usage_that_comes_unasked_is_kept(gateway: Client, upstream: Upstream) -> None:
    upstream.will(with_usage(chunks({"role": "assistant", "content": "Done."}, {}, finish_reason="stop"), 5))
    answer = await gateway.chat(agent="editor", stream=True)
    assert (answer.text, answer.usage, answer.done) == ("Done.", spent(5), True)


async def test_of_several_turns_it_is_the_sum(gateway: Client, upstream: Upstream) -> None:
    upstream.will(
        with_usage(chunks({"role": "assistant"}, CALLING, {}, finish_reason="tool_calls"), 5),
        with_usage(chunks({"role": "assistant", "content": "Done."}, {}, finish_reason="stop"), 7),
    )
    answer = await gateway.chat(agent="editor", stream=True)
    assert (answer.text, answer.usage) == ("Done.", {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 14})


async def test_a_usage_chunk_that_nobody_asked_for_is_kept(start: Start, upstream: Upstream) -> None:
    gateway = start(upstream_settings={"stream_usage": False})
    answer = [*chunks({"role": "assistant", "content": "Done."}, {}, finish_reason="stop")]
    upstream.will(raw_events([*answer, {**answer[0], "choices": [], "usage": spent(5)}, DONE]))
    got = await gateway.chat(agent="editor", stream=True)
    assert ("stream_options" in upstream.requests[0], got.usage) == (False, spent(5))


async def test_a_usage_chunk_that_the_gateway_asked_for_is_not_shown(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    answer = await gateway.chat(agent="editor", stream=True)
    assert (upstream.requests[0]["stream_options"], answer.usage) == ({"include_usage": True}, None)


async def test_json_is_shown_as_soon_as_our_tools_can_no_longer_be_called(gateway: Client, upstream: Upstream) -> None:
    gate = Gate()
    finish = chunks({"role": "assistant"}, {"content": '{"a": '}, {"content": "1}"}, {}, finish_reason="stop")
    upstream.will(raw_events([*finish, gate, DONE]))
    async with gateway.asking(agent="editor", stream=True, response_format=JSON) as response:
        seen = b""
        while b'"stop"' not in seen and (piece := await response.content.readany()):
            seen += piece  # the upstream still waits at the gate
        assert (b"1}" in seen, b"[DONE]" in seen) == (True, False)
        gate.open()
        seen += await response.read()
    assert seen.endswith(DONE)


async def test_the_last_allowed_turn_streams_json_as_it_comes(gateway: Client, upstream: Upstream) -> None:
    gate = Gate()
    parts = chunks({"role": "assistant"}, {"content": '{"a": '}, {"content": "1}"}, {}, finish_reason="stop")
    upstream.will(raw_events([*parts[:2], gate, *parts[2:], DONE]))
    async with gateway.asking(agent="hurried", stream=True, response_format=JSON) as response:
        seen = b""
        while b"a" + b'\\": ' not in seen and (piece := await response.content.readany()):
            seen += piece
        assert b"a" + b'\\": ' in seen
        gate.open()
        await response.read()


async def test_json_before_an_own_call_is_not_shown(gateway: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(mixed(OWN, text='{"wait": true}'), say('{"a": 1}'))
    answer = await gateway.chat(agent="editor", stream=stream, response_format=JSON)
    assert json.loads(answer.text) == {"a": 1}


async def test_json_with_calls_of_the_client_comes_before_them(gateway: Client, upstream: Upstream) -> None:
    upstream.will(mixed(tool_call("get_weather", "oslo", city="Oslo"), text='{"a": 1}'))
    answer = await gateway.chat(agent="editor", stream=True, response_format=JSON, tools=[WEATHER])
    assert (answer.text, answer.tool_calls) == ('{"a": 1}', [("get_weather", {"city": "Oslo"})])
    assert (answer.finish_reason, answer.done) == ("tool_calls", True)


def whole(message: dict[str, Any], finish_reason: str, *tokens: str) -> Any:
    logprobs = {"content": [{"token": token, "logprob": -0.1} for token in tokens]} if tokens else None
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish_reason}
    return reply(json.dumps({"id": "c", "created": 1, "model": "m", "choices": [choice]}).encode())


@pytest.mark.parametrize(
    ("text", "said", "tokens"),
    [
        ("One.", {}, ["One", ".", "Two", "."]),  # shown
        ("One.", {"response_format": JSON}, ["Two", "."]),  # hidden
        (None, {}, ["Two", "."]),  # nothing but calls
    ],
)
async def test_logprobs_go_with_the_text(
    gateway: Client, upstream: Upstream, text: str | None, said: dict[str, Any], tokens: list[str]
) -> None:
    first = {"role": "assistant", "content": text, "tool_calls": [OWN]}
    upstream.will(
        whole(first, "tool_calls", "One", "."), whole({"role": "assistant", "content": "Two."}, "stop", "Two", ".")
    )
    answer = await gateway.chat(agent="editor", logprobs=True, **said)
    shown = answer.json["choices"][0]["logprobs"]["content"]
    assert [one["token"] for one in shown] == tokens


@pytest.mark.parametrize(("agent", "text"), [("last", '{"a": 1}'), ("all", 'Let me look.\n\n{"a": 1}')])
async def test_an_agent_may_show_the_last_text_only(
    start: Start, upstream: Upstream, stream: bool, agent: str, text: str
) -> None:
    gateway = start(policies=LAST)
    upstream.will(mixed(OWN, text="Let me look."), say('{"a": 1}'))
    answer = await gateway.chat(agent=agent, stream=stream)
    assert (answer.text, answer.finish_reason, answer.message["role"]) == (text, "stop", "assistant")
    assert "Let me look." in str(upstream.requests[1]["messages"])


async def test_a_single_turn_is_shown_by_such_an_agent_too(start: Start, upstream: Upstream, stream: bool) -> None:
    gateway = start(policies=LAST)
    upstream.will(Answer({"role": "assistant", "content": "Hello there."}, "stop", split=7))
    answer = await gateway.chat(agent="last", stream=stream)
    assert (answer.text, answer.finish_reason) == ("Hello there.", "stop")
