"""The rules of the turn loop (DESIGN §3, CONTRACT §4) in every dialect, whole and as a stream: one suite."""

from typing import Any

import orjson
import pytest

from tests.support.dialect_caller import ASKED, OSLO, OWN, ROME, Caller, called, sent
from tests.support.gateway import (
    NAMES,
    NAMES_RESULT,
    STYLE,
    STYLE_RESULT,
    Client,
    Start,
)
from tests.support.spoken import DIALECTS, Entry, Spoken
from tests.support.upstream import Answer, Upstream, call, hang_up, mixed, say, status, tool_call

GET, LIST = "get_context_resource", "list_context_resources"


async def test_our_call_is_run_and_never_shown(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(OWN), say("Done."))
    reply = await caller.send()
    known = caller.understand(reply)
    assert (known.texts, known.calls, known.complete) == (["Done."], [], True)
    assert GET.encode() not in reply.raw
    assert sent(upstream, spoken) == [ASKED, called(OWN), Entry("result", STYLE_RESULT, "own")]


async def test_what_we_place_is_not_repeated_to_the_client(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(OWN), say("Done."), say("Plain."))
    assert b"Write plainly." not in (await caller.send()).raw
    assert "Write plainly." in spoken.read_instructions(upstream.requests[0])
    reply = await caller.send(agent="greeter")  # relayed: it has no tools of ours
    assert b"Be kind." not in reply.raw
    assert "Be kind." in spoken.read_instructions(upstream.requests[2])
    assert caller.understand(reply).texts == ["Plain."]


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_request_that_needs_nothing_is_relayed_byte_for_byte(
    gateway: Client, upstream: Upstream, stream: bool, name: str
):
    caller = Caller(gateway, DIALECTS[name], stream)
    upstream.will(say("Hello."))
    body = orjson.dumps(caller.spoken.write([ASKED], stream=caller.stream)) + b" \n"
    reply = await caller.gateway.post(body, path=caller.spoken.path, x_context_agent="bare")
    assert upstream.bodies == [body]
    assert caller.understand(reply).texts == ["Hello."]


async def test_parallel_own_calls_are_answered_in_their_order(caller: Caller, spoken: Spoken, upstream: Upstream):
    calls = [tool_call(GET, "c1", resource_id=NAMES), tool_call(LIST, "c2"), tool_call(GET, "c3", resource_id=STYLE)]
    upstream.will(mixed(*calls), say("Done."))
    await caller.ask()
    results = [one for one in sent(upstream, spoken) if one.kind == "result"]
    assert [one.id for one in results] == ["c1", "c2", "c3"]
    assert (results[0].text, results[2].text) == (NAMES_RESULT, STYLE_RESULT)


async def test_text_and_reasoning_before_our_call_are_shown_and_go_back(
    caller: Caller, spoken: Spoken, upstream: Upstream
):
    upstream.will(mixed(OWN, text="Let me look.", reasoning_content="The rules."), say("Done."))
    known = await caller.ask()
    assert "".join(known.texts).replace("\n\n", "") == "Let me look.Done."
    assert [one.text for one in known.entries if one.kind == "reasoning"] == ["The rules."]
    assert sent(upstream, spoken)[1:3] == [Entry("reasoning", "The rules."), Entry("assistant", "Let me look.")]


async def test_usage_is_the_sum_of_all_turns(caller: Caller, upstream: Upstream):
    upstream.will(mixed(OWN), call(LIST), say("Done."))
    usage = (await caller.ask()).usage
    assert usage is not None
    assert usage["total_tokens"] == 36


async def test_a_client_s_calls_pass(caller: Caller, upstream: Upstream):
    upstream.will(mixed(OSLO, ROME, text="Hm."))
    known = await caller.ask(tools=["get_weather"])
    assert known.texts == ["Hm."]
    assert known.calls == [("oslo", "get_weather", {"city": "Oslo"}), ("rome", "get_weather", {"city": "Rome"})]


@pytest.mark.parametrize("order", [(OWN, OSLO, ROME), (OSLO, OWN, ROME), (OSLO, ROME, OWN)])
async def test_a_mixed_turn_shows_the_client_s_calls_and_comes_back_whole(
    caller: Caller, spoken: Spoken, upstream: Upstream, order: tuple[dict[str, Any], ...]
):
    upstream.will(mixed(*order, text="Hm."), say("Sunny."))
    known = await caller.ask(tools=["get_weather"])
    assert [one[0] for one in known.calls] == ["oslo", "rome"]
    back = [Entry("result", "sunny", "oslo"), Entry("result", "wet", "rome")]
    assert (await caller.ask(ASKED, *known.entries, *back, tools=["get_weather"])).texts == ["Sunny."]
    shown = sent(upstream, spoken)
    assert shown[:2] == [ASKED, Entry("assistant", "Hm.")]
    assert shown[2:5] == [called(one) for one in order]
    assert shown[5:] == [Entry("result", STYLE_RESULT, "own"), *back]


async def test_own_turns_before_a_client_s_call_come_back_too(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(OWN, text="First.", reasoning_content="Why."), mixed(OSLO, text="Second."), say("Sunny."))
    known = await caller.ask(tools=["get_weather"])
    await caller.ask(ASKED, *known.entries, Entry("result", "sunny", "oslo"), tools=["get_weather"])
    assert sent(upstream, spoken) == [
        ASKED,
        Entry("reasoning", "Why."),
        Entry("assistant", "First."),
        called(OWN),
        Entry("result", STYLE_RESULT, "own"),
        Entry("assistant", "Second."),
        called(OSLO),
        Entry("result", "sunny", "oslo"),
    ]


async def test_a_changed_text_keeps_the_client_s_view_with_our_calls_added(
    caller: Caller, spoken: Spoken, upstream: Upstream
):
    upstream.will(mixed(OWN, OSLO, text="Hm."), say("Sunny."))
    asked = Entry("user", f"Redact this {caller.stream}")  # of what several turns are known for, none is put back
    await caller.ask(asked, tools=["get_weather"])
    changed = Entry("assistant", "[removed]")
    await caller.ask(asked, changed, called(OSLO), Entry("result", "sunny", "oslo"), tools=["get_weather"])
    shown = sent(upstream, spoken)
    assert changed in shown
    assert Entry("assistant", "Hm.") not in shown
    assert {called(OWN), Entry("result", STYLE_RESULT, "own"), called(OSLO)} <= set(shown)


async def test_another_conversation_gets_nothing_back(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(OWN, OSLO), say("Sunny."))
    await caller.ask(tools=["get_weather"])
    other = [Entry("user", "Something else"), called(OSLO), Entry("result", "sunny", "oslo")]
    await caller.ask(*other, tools=["get_weather"])
    assert sent(upstream, spoken) == other


async def test_the_last_turn_goes_without_our_tools(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(OWN), say("Done."))
    known = await caller.ask(agent="hasty", tools=["get_weather"])
    assert known.texts == ["Done."]
    assert [spoken.read_tools(request) for request in upstream.requests] == [
        ["get_weather", GET, LIST],
        ["get_weather"],
    ]


async def test_without_tools_of_the_client_the_last_turn_may_call_nothing(caller: Caller, upstream: Upstream):
    upstream.will(mixed(OWN), say("Done."))
    await caller.ask(agent="hasty")
    assert upstream.requests[1]["tool_choice"] in ("none", {"type": "none"})


async def test_a_model_that_goes_on_calling_us_ends_in_an_error(caller: Caller, upstream: Upstream):
    upstream.will(mixed(OWN), mixed(OWN))
    reply = await caller.send(agent="hasty")
    known = caller.understand(reply)
    assert not known.complete
    assert [one["code"] for one in known.errors] == ["loop_limit"]
    assert reply.status == (200 if reply.streamed else 502)


async def test_a_text_beside_a_call_too_many_is_the_answer(caller: Caller, upstream: Upstream):
    upstream.will(mixed(OWN), mixed(OWN, text="Anyway."))
    known = await caller.ask(agent="hasty")
    assert (known.texts, known.calls, known.complete) == (["Anyway."], [], True)


@pytest.mark.parametrize(
    ("options", "registered"),
    [
        ({}, True),
        ({"tool_choice": "none", "tools": ["get_weather"]}, False),
        ({"tool_choice": "required", "tools": ["get_weather"]}, True),
        ({"tool_choice": "auto"}, False),
        ({"named": "get_weather", "tools": ["get_weather"]}, False),
    ],
)
async def test_when_our_tools_are_registered(
    caller: Caller, spoken: Spoken, upstream: Upstream, options: dict[str, Any], registered: bool
):
    upstream.will(say("Done."))
    await caller.ask(**dict(options))
    assert (GET in spoken.read_tools(upstream.requests[0])) == registered


async def test_a_client_tool_with_our_name_wins(caller: Caller, spoken: Spoken, upstream: Upstream):
    theirs = tool_call(GET, "theirs", city="Oslo")
    upstream.will(mixed(theirs))
    known = await caller.ask(tools=[GET])
    assert known.calls == [("theirs", GET, {"city": "Oslo"})]
    assert spoken.read_tools(upstream.requests[0]) == [GET, f"{GET}_2", LIST]


async def test_a_json_answer_shows_the_last_text_only(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(OWN, text="Let me look."), say('{"ok": true}'))
    assert (await caller.ask(json=True)).texts == ['{"ok": true}']
    assert Entry("assistant", "Let me look.") in sent(upstream, spoken)


async def test_a_json_answer_in_one_turn_is_shown(caller: Caller, upstream: Upstream):
    upstream.will(say('{"ok": true}', reasoning_content="Easy."))
    known = await caller.ask(json=True)
    assert (known.texts, known.complete) == (['{"ok": true}'], True)


async def test_an_answer_that_is_cut_short_runs_nothing(caller: Caller, upstream: Upstream):
    upstream.will(mixed(OWN, text="I was").but(finish_reason="length"))
    known = await caller.ask()
    assert (known.texts, known.calls, known.complete) == (["I was"], [], True)


@pytest.mark.parametrize("failure", [status(503), hang_up()])
async def test_a_failure_in_a_later_turn_is_told(caller: Caller, start: Start, upstream: Upstream, failure: Any):
    tries = 3 if caller.stream else 1
    upstream.will(mixed(OWN), *[failure] * tries)
    caller.gateway = start(upstream_settings={"responses": True, "retries": None})
    reply = await caller.send()
    known = caller.understand(reply)
    assert not known.complete
    assert len(known.errors) == 1
    assert reply.streamed == caller.stream


async def test_an_error_of_the_upstream_passes(caller: Caller, upstream: Upstream):
    upstream.will(status(429, retry_after="7"))
    reply = await caller.send()
    assert (reply.status, reply.headers["retry-after"]) == (429, "7")
    assert reply.error["message"] == "failed with 429"


ONE_BYTE = {"split": 1, "pieces": 9}


@pytest.mark.parametrize(
    "way", [{}, {"packed": True}, {"newline": b"\r\n"}, ONE_BYTE], ids=["events", "packed", "crlf", "bytes"]
)
async def test_pieces_of_any_size_make_no_difference(
    gateway: Client, spoken: Spoken, upstream: Upstream, way: dict[str, Any]
):
    answers: list[Answer] = [
        mixed(OWN, text="Hm – é.", reasoning_content="So."),
        say("Dœne.", reasoning_content="Yes."),
    ]
    upstream.will(*answers, *(one.but(**way) for one in answers))
    caller = Caller(gateway, spoken, True)
    one, other = await caller.ask(), await caller.ask()
    assert (one.entries, one.usage, one.complete) == (other.entries, other.usage, True)


async def test_every_dialect_gets_the_same_context(gateway: Client, upstream: Upstream, stream: bool):
    seen = []
    for spoken in DIALECTS.values():
        upstream.reset()
        upstream.will(mixed(OWN), say("Done."))
        reply = await Caller(gateway, spoken, stream).send()
        assert reply.status == 200
        names = ("injected", "tokens", "snapshot", "content")
        told = [reply.headers.get(f"x-context-{name}") for name in names]
        first = upstream.requests[0]
        seen.append((told, spoken.read_instructions(first), spoken.read_tools(first), sent(upstream, spoken)))
    assert all(one == seen[0] for one in seen)
