"""Finer rules of the turn loop (DESIGN §3, CONTRACT §4 and §9) in every dialect, whole and as a stream."""

from typing import Any

import orjson
import pytest

from gateway.conversation.conversation import ConversationTimings
from gateway.conversation.dialects.registry import DIALECTS as DIALECT_OBJECTS
from tests.support.dialect_caller import ASKED, OSLO, OWN, ROME, Caller, called, sent
from tests.support.gateway import STYLE, STYLE_RESULT, Client, Start
from tests.support.spoken import CHAT_MODEL, DIALECTS, MESSAGES_MODEL, TRANSLATED, Entry, Spoken
from tests.support.upstream import Upstream, call, mixed, say, status, tool_call

GET, LIST = "get_context_resource", "list_context_resources"
RENAMED = tool_call(f"{GET}_2", "renamed", resource_id=STYLE)


async def test_whole_and_stream_come_to_the_same(gateway: Client, spoken: Spoken, upstream: Upstream):
    turns = [
        mixed(OWN, text="First.", reasoning_content="Why."),
        mixed(OWN, text="Second."),
        mixed(OSLO, text="Third."),
    ]
    seen = []
    for stream in (False, True):
        upstream.reset()
        upstream.will(*turns)
        known = await Caller(gateway, spoken, stream).ask(tools=["get_weather"])
        seen.append((known.entries, known.usage, known.complete))
    assert seen[0] == seen[1]


async def test_names_are_those_of_the_first_turn(caller: Caller, spoken: Spoken, upstream: Upstream):
    later = {"model": "m-later", "created": 9, "created_at": 9}
    upstream.will(mixed(OWN), say("Done.").but(top=later))
    reply = await caller.send()
    assert caller.understand(reply).complete
    assert b"m-later" not in reply.raw
    names = {"chat": b"chatcmpl-1", "responses": b"resp_1", "messages": b"msg_1"}
    if spoken in DIALECTS.values():
        assert names[spoken.name] in reply.raw
        assert b"chatcmpl-2" not in reply.raw
        assert b"resp_2" not in reply.raw


async def test_a_renamed_tool_of_ours_is_run(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(RENAMED), say("Done."))
    reply = await caller.send(tools=[GET])
    assert caller.understand(reply).texts == ["Done."]
    assert b"renamed" not in reply.raw
    assert sent(upstream, spoken)[-2:] == [called(RENAMED), Entry("result", STYLE_RESULT, "renamed")]


async def test_bad_arguments_are_told_to_the_model(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(tool_call(GET, "bad", resource=1)), mixed(tool_call(GET, "none")), say("Done."))
    assert (await caller.ask()).texts == ["Done."]
    results = [one.text for one in sent(upstream, spoken) if one.kind == "result"]
    assert [text[:6] for text in results] == ["Error:", "Error:"]


async def test_a_choice_that_is_required_stays_in_force(caller: Caller, upstream: Upstream):
    upstream.will(mixed(OWN), mixed(OSLO))
    known = await caller.ask(tools=["get_weather"], tool_choice="required")
    assert [one[0] for one in known.calls] == ["oslo"]
    choices = [request["tool_choice"] for request in upstream.requests]
    assert choices[0] == choices[1]
    assert choices[0] in ("required", {"type": "any"})


async def test_a_mixed_turn_too_many_passes_the_client_s_calls(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(OWN), mixed(OWN, OSLO, ROME), say("Sunny."))
    known = await caller.ask(agent="hasty", tools=["get_weather"])
    assert ([one[0] for one in known.calls], known.complete) == (["oslo", "rome"], True)
    back = [Entry("result", "sunny", "oslo"), Entry("result", "wet", "rome")]
    await caller.ask(ASKED, *known.entries, *back, tools=["get_weather"])
    assert [one.id for one in sent(upstream, spoken) if one.kind == "result"] == ["own", "oslo", "rome"]


async def test_one_turn_is_the_last_turn(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(say("Done."), say("Done."))
    assert (await caller.ask(agent="hurried", tools=["get_weather"])).texts == ["Done."]
    assert spoken.read_tools(upstream.requests[0]) == ["get_weather"]
    assert b"Write plainly." in upstream.bodies[0]
    assert b"Reference Materials" not in upstream.bodies[0], "nobody can fetch them"
    assert (await caller.ask(agent="hurried")).texts == ["Done."]
    assert upstream.requests[1]["tool_choice"] in ("none", {"type": "none"})


async def test_a_rate_limit_in_a_later_turn_is_told_as_one(caller: Caller, spoken: Spoken, upstream: Upstream):
    upstream.will(mixed(OWN), status(429))
    reply = await caller.send()
    if not caller.stream:
        assert (reply.status, reply.error["message"]) == (429, "failed with 429")
        return
    known = caller.understand(reply)
    assert not known.complete
    (error,) = known.errors
    kind = error.get("type") if spoken.name != "responses" else error["error"]["type"]
    assert (kind, error["code"]) == ("rate_limit_error", "upstream_rate_limited")
    assert "failed with 429" in error["message"]


async def test_the_client_s_new_names_for_its_calls_are_kept(caller: Caller, spoken: Spoken, upstream: Upstream):
    """A client may give its calls other ids, even those of ours, which get others then."""
    upstream.will(mixed(OWN, OSLO, text="Hm."), say("Sunny."))
    asked = Entry("user", f"With new names {caller.stream}")
    known = await caller.ask(asked, tools=["get_weather"])
    renamed = [one._replace(id="own") if one.kind == "call" else one for one in known.entries]
    await caller.ask(asked, *renamed, Entry("result", "sunny", "own"), tools=["get_weather"])
    shown = [(one.kind, one.id) for one in sent(upstream, spoken) if one.kind in ("call", "result")]
    assert shown == [("call", "own_1"), ("call", "own"), ("result", "own_1"), ("result", "own")]


async def test_the_stream_is_kept_alive_between_turns(start: Start, spoken: Spoken, upstream: Upstream):
    account = {"base_url": upstream.base_url, "api_key": "sk", "retries": 0}
    upstreams = {"a": {"kind": "anthropic", **account}, "c": {"kind": "openai", **account}}
    upstreams["r"] = {"kind": "openai", "responses": True, **account}
    named = {MESSAGES_MODEL: "a", CHAT_MODEL: "c", "*": "r"}
    routes = [{"model": model, "upstream": name} for model, name in named.items()]
    client = start(upstreams=upstreams, routes=routes, timings=ConversationTimings(keepalive=0.01))
    upstream.will(mixed(OWN), say("Done.").but(before=(0.08,)))
    reply = await Caller(client, spoken, True).send()
    assert spoken.read_stream(reply.raw).texts == ["Done."]
    keepalive = next(one.keepalive for name, one in DIALECT_OBJECTS.items() if name == spoken.name)
    assert reply.raw.count(keepalive) > 0


async def test_what_the_model_fetched_is_kept_for_the_session(caller: Caller, spoken: Spoken, upstream: Upstream):
    session = f"kept-{spoken.name}-{spoken.model}-{caller.stream}"
    upstream.will(mixed(OWN), say("Done."), say("Again."))
    await caller.ask(session=session)
    assert "Use the serial comma." not in spoken.read_instructions(upstream.requests[0])
    await caller.ask(session=session)
    assert "Use the serial comma." in spoken.read_instructions(upstream.requests[2])


@pytest.mark.parametrize("stream", [False, True])
async def test_several_choices_go_without_our_tools(gateway: Client, upstream: Upstream, stream: bool):
    """Only chat completions have `n`."""
    upstream.will(say("Done."))
    body = {"model": "m-large", "n": 2, "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
    assert (await gateway.post(orjson.dumps(body), x_context_agent="editor")).status == 200
    assert "tools" not in upstream.requests[0]


@pytest.mark.parametrize("name", ["responses", "responses over chat", "responses over messages"])
@pytest.mark.parametrize("order", [(OWN, OSLO), (OSLO, OWN)])
async def test_hidden_turns_come_back_by_the_response_s_id(
    gateway: Client, upstream: Upstream, stream: bool, name: str, order: tuple[dict[str, Any], ...]
):
    spoken = {**DIALECTS, **TRANSLATED}[name]
    caller = Caller(gateway, spoken, stream)
    upstream.will(call(LIST), mixed(*order, text="Hm."), say("Sunny."))
    first = await caller.ask(tools=["get_weather"])
    back = Entry("result", "sunny", "oslo")
    second = await caller.ask(back, tools=["get_weather"], previous_response_id=first.id)
    assert second.texts == ["Sunny."]
    results = [one for one in sent(upstream, spoken) if one.kind == "result"]
    assert results[-2:] == [Entry("result", STYLE_RESULT, "own"), back]
    if name != "responses":  # that upstream knows the rest
        calls = [one.id for one in sent(upstream, spoken) if one.kind == "call"]
        assert calls[1:] == [one["id"] for one in order]
