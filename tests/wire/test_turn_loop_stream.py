"""What one client stream looks like: one head, summed usage, bytes at once, comments in between (rule 3)."""

import asyncio
import time
from typing import Any

import pytest

from gateway.conversation.conversation import ConversationTimings
from tests.support.gateway import STYLE, WEATHER, Client, Start
from tests.support.limits import with_limits
from tests.support.upstream import (
    PATIENCE,
    Gate,
    Reaction,
    Upstream,
    call,
    chunks,
    mixed,
    raw_events,
    say,
    tool_call,
    wait_for,
)

GET = "get_context_resource"
OWN = tool_call(GET, "own_1", resource_id=STYLE)
OSLO = tool_call("get_weather", "oslo", city="Oslo")
DONE = b"data: [DONE]\n\n"
IMPATIENT = ConversationTimings(keepalive=0.05)


async def test_a_stream_has_one_id_created_model_role_and_finish(gateway: Client, upstream: Upstream):
    later = {"created": 1_800_000_000, "model": "another", "system_fingerprint": "fp"}
    upstream.will(mixed(OWN, text="One."), mixed(OWN).but(top=later), say("Two.").but(top=later))
    reply = await gateway.chat(agent="editor", stream=True)
    heads = {(event["id"], event["created"], event["model"], event["object"]) for event in reply.events}
    assert heads == {("chatcmpl-1", 1_700_000_000, "m-large", "chat.completion.chunk")}
    assert [delta["role"] for delta in reply.deltas if delta.get("role")] == ["assistant"]
    assert reply.finish_reasons == ["stop"]
    assert reply.payloads.count(b"[DONE]") == 1


async def test_a_whole_reply_has_the_head_of_its_first_turn(gateway: Client, upstream: Upstream):
    upstream.will(mixed(OWN), say("Two.").but(top={"created": 1_800_000_000, "model": "another", "x_last": 1}))
    reply = (await gateway.chat(agent="editor")).json
    assert (reply["id"], reply["created"], reply["model"]) == ("chatcmpl-1", 1_700_000_000, "m-large")
    assert reply["x_last"] == 1
    assert len(reply["choices"]) == 1


async def test_role_and_text_in_one_chunk_of_a_json_answer_keep_the_role(gateway: Client, upstream: Upstream):
    own = chunks({"role": "assistant", "content": "Hm."}, {"tool_calls": [{"index": 0, **OWN}]}, finish_reason="stop")
    last = chunks({"role": "assistant", "content": "{}"}, finish_reason="stop")
    upstream.will(raw_events([*own, DONE]), raw_events([*own, DONE]), raw_events([*last, DONE]))
    reply = await gateway.chat(agent="editor", stream=True, response_format={"type": "json_object"})
    assert reply.text == "{}"
    assert [delta["role"] for delta in reply.deltas if delta.get("role")] == ["assistant"]


NESTED = {
    "prompt_tokens": 5,
    "completion_tokens": 2,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": None},
    "cost": 0.25,
}
MORE = {"prompt_tokens": 50, "completion_tokens": 3, "total_tokens": 53, "prompt_tokens_details": {"cached_tokens": 40}}
SUM = {
    "prompt_tokens": 55,
    "completion_tokens": 5,
    "total_tokens": 60,
    "prompt_tokens_details": {"cached_tokens": 44, "audio_tokens": None},
    "cost": 0.25,
}


async def test_usage_is_summed_over_turns(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(OWN).but(usage=NESTED), say("Done.").but(usage=MORE))
    said: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
    reply = await gateway.chat(agent="editor", stream=stream, **said)
    assert reply.usage == SUM
    if stream:
        assert reply.events[-1]["choices"] == []
        assert reply.events[-1]["id"] == "chatcmpl-1"


async def test_a_mixed_turn_tells_its_usage(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(OWN).but(usage=NESTED), mixed(OWN, OSLO).but(usage=MORE))
    said: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
    reply = await gateway.chat(agent="editor", stream=stream, tools=[WEATHER], **said)
    assert (reply.usage, reply.tool_calls) == (SUM, [("get_weather", {"city": "Oslo"})])


@pytest.mark.parametrize("options", [None, {"include_usage": False}, {"include_obfuscation": False}])
async def test_a_usage_chunk_that_we_forced_is_not_shown(gateway: Client, upstream: Upstream, options: Any):
    upstream.will(mixed(OWN), say("Done."))
    said = {"stream_options": options} if options is not None else {}
    reply = await gateway.chat(agent="editor", stream=True, **said)
    assert (reply.usage, reply.done) == (None, True)
    for request in upstream.requests:
        assert request["stream_options"] == {**(options or {}), "include_usage": True}


async def test_usage_is_not_forced_on_an_upstream_that_does_not_know_it(start: Start, upstream: Upstream):
    gateway = start(upstream_settings={"stream_usage": False})
    upstream.will(say("Done."))
    await gateway.chat(agent="editor", stream=True)
    assert "stream_options" not in upstream.requests[0]


async def read_until(content: Any, wanted: bytes) -> bytes:
    seen = b""
    async with asyncio.timeout(5):
        while wanted not in seen:
            piece = await content.readany()
            assert piece, f"ended after {seen!r}"
            seen += piece
    return seen


async def test_text_before_an_own_call_arrives_before_the_call_is_complete(gateway: Client, upstream: Upstream):
    gate, second = Gate(), Gate()
    upstream.will(mixed(OWN, text="Let me look.").but(after_text=(gate,)), say("Done.").but(before=(second,)))
    async with gateway.asking(agent="editor", stream=True) as response:
        seen = await read_until(response.content, b"ok.")
        assert b"[DONE]" not in seen
        gate.open()
        await asyncio.to_thread(second.reached.wait, 5)
        assert len(upstream.requests) == 2
        second.open()
        rest = await response.content.read()
    assert (seen + rest).endswith(DONE)


async def test_headers_arrive_with_the_first_turn(gateway: Client, upstream: Upstream):
    gate = Gate()
    upstream.will(mixed(OWN).but(headers=(("x-request-id", "first"),)), say("Done.").but(before=(gate,)))
    async with gateway.asking(agent="editor", stream=True) as response:
        assert response.headers["x-request-id"] == "first"
        assert "x-context-receipt" in response.headers
        gate.open()
        assert b"[DONE]" in await response.content.read()


async def test_later_text_arrives_as_it_is_said(gateway: Client, upstream: Upstream):
    gate = Gate()
    last = [
        *chunks({"role": "assistant", "content": "Early."}),
        gate,
        *chunks({"content": " Late."}, finish_reason="stop"),
    ]
    upstream.will(mixed(OWN), raw_events([*last, DONE]))
    async with gateway.asking(agent="editor", stream=True) as response:
        assert b"Late" not in await read_until(response.content, b"Early.")
        gate.open()
        assert b"Late" in await response.content.read()


async def test_a_json_answer_holds_text_back_until_its_turn_proves_the_last(gateway: Client, upstream: Upstream):
    gate = Gate()
    upstream.will(say('{"a": 1}').but(after_text=(gate,)))
    async with gateway.asking(agent="editor", stream=True, response_format={"type": "json_object"}) as response:
        await asyncio.to_thread(gate.reached.wait, 5)
        await asyncio.sleep(0.05)
        early = response.content.read_nowait()
        gate.open()
        late = await response.content.read()
    assert b"assistant" in early
    assert b'"content":"{' not in early
    assert b'"content":"{' in late
    assert late.endswith(DONE)


SLOWLY: dict[str, list[Reaction]] = {
    "the next turn is late": [mixed(OWN), say("Done.").but(before=(0.3,))],
    "the next turn pauses": [mixed(OWN), say("Done.").but(after_text=(0.3,))],
    "an own call is long": [
        raw_events(
            [
                *chunks({"role": "assistant"}, {"tool_calls": [{"index": 0, **OWN, "function": {"name": GET}}]}),
                *[0.02, *chunks({"tool_calls": [{"index": 0, "function": {"arguments": " "}}]})] * 15,
                *chunks({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, finish_reason="stop"),
                DONE,
            ]
        ),
        say("Done."),
    ],
}


@pytest.mark.parametrize("script", SLOWLY.values(), ids=SLOWLY)
async def test_comments_keep_a_silent_stream_alive(start: Start, upstream: Upstream, script: list[Reaction]):
    gateway = start(timings=IMPATIENT)
    upstream.will(*script)
    reply = await gateway.chat(agent="editor", stream=True)
    assert reply.text == "Done."
    assert reply.comments >= 2


async def test_comments_keep_a_held_back_json_answer_alive(start: Start, upstream: Upstream):
    gateway = start(timings=IMPATIENT)
    slow = [piece for _ in range(15) for piece in (0.02, *chunks({"content": "1"}))]
    upstream.will(raw_events([*chunks({"role": "assistant"}), *slow, *chunks({}, finish_reason="stop"), DONE]))
    reply = await gateway.chat(agent="editor", stream=True, response_format={"type": "json_object"})
    assert reply.text == "1" * 15
    assert reply.comments >= 2


async def test_a_lively_stream_carries_no_comments(gateway: Client, upstream: Upstream):
    upstream.will(mixed(OWN), say("Done."))
    assert (await gateway.chat(agent="editor", stream=True)).comments == 0


async def test_an_upstream_that_stays_open_after_done_does_not_hold_the_client(gateway: Client, upstream: Upstream):
    gate = Gate()
    upstream.will(raw_events([*chunks({"role": "assistant", "content": "Done."}, finish_reason="stop"), DONE, gate]))
    began = time.monotonic()
    reply = await gateway.chat(agent="editor", stream=True)
    assert reply.done
    assert time.monotonic() - began < PATIENCE - 1  # the upstream would close then
    gate.open()


PHASES: dict[str, list[Reaction]] = {
    "before the head": [say("Done.").but(before=(30.0,))],
    "in the text": [raw_events([*chunks({"role": "assistant", "content": "a"}), 30.0])],
    "in an own call": [
        raw_events(
            [*chunks({"role": "assistant"}, {"tool_calls": [{"index": 0, **OWN, "function": {"name": GET}}]}), 30.0]
        )
    ],
    "before the second head": [mixed(OWN), say("Done.").but(before=(30.0,))],
    "in the second turn": [mixed(OWN), raw_events([*chunks({"role": "assistant", "content": "a"}), 30.0])],
    "in an answer of the second turn": [mixed(OWN), say("Done.").but(before=(b" ", 30.0))],
}


WHOLE_PHASES = ("before the head", "before the second head", "in an answer of the second turn")


@with_limits(loaded=5, quiet=1)  # seconds
@pytest.mark.parametrize(
    ("stream", "phase"), [(True, name) for name in PHASES] + [(False, name) for name in WHOLE_PHASES]
)
async def test_a_client_that_leaves_closes_the_upstream(
    gateway: Client, upstream: Upstream, stream: bool, phase: str, limits: float
):
    script = PHASES[phase]
    upstream.will(*script)
    asking = asyncio.ensure_future(gateway.chat(agent="editor", stream=stream))
    await asyncio.to_thread(wait_for, lambda: len(upstream.seen) == len(script))
    await asyncio.sleep(0.1)
    left = time.monotonic()
    asking.cancel()
    last = upstream.seen[-1]
    assert await asyncio.to_thread(last.gone.wait, 10), "the upstream was not closed"
    assert last.gone_at - left < limits


@with_limits(loaded=5, quiet=1)  # seconds
async def test_a_relayed_stream_is_closed_when_the_client_leaves(gateway: Client, upstream: Upstream, limits: float):
    upstream.will(raw_events([*chunks({"role": "assistant", "content": "a"}), 30.0]))
    async with gateway.asking(agent="bare", stream=True) as response:
        await read_until(response.content, b"assistant")
        left = time.monotonic()
        response.close()
    assert await asyncio.to_thread(upstream.seen[0].gone.wait, 10)
    assert upstream.seen[0].gone_at - left < limits


async def test_own_turns_leave_the_connection_for_the_next_turn(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(call(GET, resource_id=STYLE), say("Done."))
    await gateway.chat(agent="editor", stream=stream)
    assert not any(one.gone.is_set() for one in upstream.seen)
