"""Mixed turns: the client sees its own calls only, and the hidden ones come back with its results (rule 2)."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.conversation.conversation import ConversationTimings
from gateway.errors import StoreError
from tests.support.gateway import NAMES, NAMES_RESULT, STYLE, STYLE_RESULT, WEATHER, Client, ClientReply, Start
from tests.support.upstream import PATIENCE, Answer, Gate, Upstream, call, mixed, say, tool_call

GET = "get_context_resource"
QUESTION = {"role": "user", "content": "Tidy this"}
Ask = Callable[..., Awaitable[ClientReply]]
OWN_1, OWN_2 = tool_call(GET, "own_1", resource_id=STYLE), tool_call(GET, "own_2", resource_id=NAMES)
OSLO, ROME = tool_call("get_weather", "oslo", city="Oslo"), tool_call("get_weather", "rome", city="Rome")


def tool_result(identity: str, content: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def follow_up(reply: ClientReply, **results: str) -> list[dict[str, Any]]:
    """The history that a client sends once it has run its calls."""
    seen = {"role": "assistant", "content": reply.text or None, "tool_calls": reply.message["tool_calls"]}
    return [QUESTION, seen, *(tool_result(identity, text) for identity, text in results.items())]


def without_system(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [message for message in request["messages"] if message["role"] != "system"]


@pytest.fixture
def ask(gateway: Client, stream: bool, request: pytest.FixtureRequest) -> Ask:
    """Ask with a client tool, in a session of the test's own; `via` is another gateway."""

    async def asked(history: Any = "Tidy this", via: Client = gateway, **said: Any) -> ClientReply:
        said = {"agent": "editor", "session": request.node.name, "tools": [WEATHER], "stream": stream, **said}
        reply = await via.chat(history, **said)
        assert reply.status == 200
        return reply

    return asked


async def test_the_client_sees_its_own_calls_from_index_0(ask: Ask, upstream: Upstream):
    upstream.will(mixed(OWN_1, OSLO, OWN_2, ROME, text="Hm."))
    reply = await ask()
    assert reply.message["tool_calls"] == [OSLO, ROME]
    assert (reply.text, reply.finish_reason) == ("Hm.", "tool_calls")
    assert b"own_1" not in reply.raw
    assert GET.encode() not in reply.raw


async def test_hidden_calls_and_results_come_back_with_the_client_s(ask: Ask, upstream: Upstream):
    answer = mixed(OWN_1, OSLO, OWN_2, ROME, text="Hm.", x_sig="kept")
    upstream.will(answer, say("Done."))
    reply = await ask()
    reply = await ask(follow_up(reply, oslo="rain", rome="sun"))
    assert reply.text == "Done."
    assert without_system(upstream.requests[1]) == [
        QUESTION,
        answer.message,
        tool_result("own_1", STYLE_RESULT),
        tool_result("own_2", NAMES_RESULT),
        tool_result("oslo", "rain"),
        tool_result("rome", "sun"),
    ]


async def test_a_hidden_own_turn_before_a_client_turn_comes_back(ask: Ask, upstream: Upstream):
    own, client = mixed(OWN_1, text="First."), mixed(OSLO, text="Then.")
    upstream.will(own, client, say("Done."))
    reply = await ask()
    assert (reply.text, reply.message["tool_calls"]) == ("First.\n\nThen.", [OSLO])
    await ask(follow_up(reply, oslo="rain"))
    assert without_system(upstream.requests[2]) == [
        QUESTION,
        own.message,
        tool_result("own_1", STYLE_RESULT),
        client.message,
        tool_result("oslo", "rain"),
    ]


async def test_own_turns_before_a_mixed_turn_come_back(ask: Ask, upstream: Upstream):
    own, both = mixed(OWN_1), mixed(OWN_2, OSLO)
    upstream.will(own, both, say("Done."))
    reply = await ask()
    assert reply.message["tool_calls"] == [OSLO]
    await ask(follow_up(reply, oslo="rain"))
    assert without_system(upstream.requests[2]) == [
        QUESTION,
        own.message,
        tool_result("own_1", STYLE_RESULT),
        both.message,
        tool_result("own_2", NAMES_RESULT),
        tool_result("oslo", "rain"),
    ]


async def test_every_mixed_turn_of_a_long_history_is_expanded(ask: Ask, upstream: Upstream):
    first, second = mixed(OWN_1, OSLO), mixed(OWN_2, ROME)
    upstream.will(first, second, say("Done."))
    history = follow_up(await ask(), oslo="rain")
    reply = await ask(history)
    history += follow_up(reply, rome="sun")[1:]
    await ask(history)
    roles = [message["role"] for message in without_system(upstream.requests[2])]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "tool"]
    assert [m for m in upstream.requests[2]["messages"] if m["role"] == "assistant"] == [first.message, second.message]


async def test_a_client_turn_alone_is_not_kept(ask: Ask, upstream: Upstream):
    upstream.will(mixed(OSLO), say("Done."))
    history = follow_up(await ask(), oslo="rain")
    await ask(history)
    assert without_system(upstream.requests[1]) == history


@pytest.mark.parametrize("changed", ["session", "arguments", "name", "id", "missing call"])
async def test_what_does_not_match_is_left_alone(ask: Ask, upstream: Upstream, changed: str):
    upstream.will(mixed(OWN_1, OSLO, ROME), say("Done."))
    history = follow_up(await ask(), oslo="rain", rome="sun")
    calls = history[1]["tool_calls"]
    if changed == "arguments":
        calls[0]["function"]["arguments"] = '{"city":"Bergen"}'
    elif changed == "name":
        calls[0]["function"]["name"] = "get_news"
    elif changed == "id":
        calls[0]["id"] = "other"
    elif changed == "missing call":
        calls.pop()
    await ask(history, **({"session": "another"} if changed == "session" else {}))
    assert without_system(upstream.requests[1]) == history


async def test_arguments_written_differently_still_match(ask: Ask, upstream: Upstream):
    upstream.will(mixed(OWN_1, OSLO), say("Done."))
    history = follow_up(await ask(), oslo="rain")
    history[1]["tool_calls"][0]["function"]["arguments"] = '{ "city" : "\\u004fslo" }'
    await ask(history)
    assert tool_result("own_1", STYLE_RESULT) in upstream.requests[1]["messages"]


async def test_without_a_session_hidden_turns_come_back_too(ask: Ask, upstream: Upstream):
    upstream.will(mixed(OWN_1, OSLO), say("Done."))
    history = follow_up(await ask(session=""), oslo="rain")
    await ask(history, session="")
    assert tool_result("own_1", STYLE_RESULT) in upstream.requests[1]["messages"]


async def test_an_expired_entry_changes_nothing(ask: Ask, start: Start, upstream: Upstream):
    gateway = start(timings=ConversationTimings(hidden_turns=0.001))
    upstream.will(mixed(OWN_1, OSLO), say("Done."))
    history = follow_up(await ask(via=gateway), oslo="rain")
    await ask(history, via=gateway)
    assert without_system(upstream.requests[1]) == history


def keyed(name: str, workspace: str = "default") -> dict[str, str]:
    return {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "workspace": workspace}


@pytest.mark.parametrize("other", ["other-principal", "other-workspace"])
async def test_another_caller_never_sees_hidden_turns(ask: Ask, start: Start, upstream: Upstream, other: str):
    keys = [keyed("one"), keyed("other-principal"), keyed("other-workspace", "elsewhere")]
    gateway = start(auth={"keys": keys})
    upstream.will(mixed(OWN_1, OSLO), say("Done."), say("Done."))
    history = follow_up(await ask(via=gateway, key="one"), oslo="rain")
    await ask(history, via=gateway, key=other)
    assert without_system(upstream.requests[1]) == history
    await ask(history, via=gateway, key="one")
    assert tool_result("own_1", STYLE_RESULT) in upstream.requests[2]["messages"]


async def test_hidden_turns_survive_in_sqlite(ask: Ask, start: Start, upstream: Upstream, tmp_path: Path):
    store = f"sqlite:///{tmp_path}/gateway.db"
    upstream.will(mixed(OWN_1, OSLO), say("Done."))
    history = follow_up(await ask(via=start(store=store)), oslo="rain")
    await ask(history, via=start(store=store))  # another gateway on the same file
    assert tool_result("own_1", STYLE_RESULT) in upstream.requests[1]["messages"]


async def test_hidden_turns_are_stored_before_the_finish_is_sent(
    gateway: Client, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    gate = Gate()
    put = gateway.app.store.put

    async def slow_put(*arguments: Any) -> None:
        await gate.passed()
        await put(*arguments)

    monkeypatch.setattr(gateway.app.store, "put", slow_put)
    upstream.will(mixed(OWN_1, OSLO))
    async with gateway.asking(agent="editor", tools=[WEATHER], stream=True) as response:
        assert await asyncio.to_thread(gate.reached.wait, PATIENCE)
        seen = response.content.read_nowait()
        assert b'finish_reason":"' not in seen
        assert b"[DONE]" not in seen
        gate.open()
        seen += await response.content.read()
    assert seen.endswith(b"data: [DONE]\n\n")
    assert seen.count(b'"finish_reason":"tool_calls"') == 1


async def test_a_store_that_fails_leaves_the_client_s_view_complete(
    ask: Ask, gateway: Client, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    async def failing(*arguments: Any) -> Any:
        raise StoreError("down")

    monkeypatch.setattr(gateway.app.store, "put", failing)
    monkeypatch.setattr(gateway.app.store, "get_many", failing)
    upstream.will(mixed(OWN_1, OSLO), say("Done."))
    reply = await ask()
    assert reply.message["tool_calls"] == [OSLO]
    history = follow_up(reply, oslo="rain")
    reply = await ask(history)
    assert (reply.text, reply.headers["x-context-degraded"]) == ("Done.", "store")
    assert without_system(upstream.requests[1]) == history


@pytest.mark.parametrize("split", [1, 7])
async def test_a_mixed_stream_in_small_pieces_reads_the_same(gateway: Client, upstream: Upstream, split: int):
    answer: Answer = mixed(OWN_1, OSLO, OWN_2, ROME, text="Hm, é…").but(split=split)
    upstream.will(answer)
    reply = await gateway.chat(agent="editor", tools=[WEATHER], stream=True)
    assert (reply.text, reply.message["tool_calls"]) == ("Hm, é…", [OSLO, ROME])


async def test_the_session_may_be_named_in_the_body(ask: Ask, upstream: Upstream):
    upstream.will(mixed(OWN_1, OSLO), say("Done."))
    reply = await ask(session="", context={"session": "in-body"})
    await ask(follow_up(reply, oslo="rain"), session="in-body")
    assert tool_result("own_1", STYLE_RESULT) in upstream.requests[1]["messages"]


async def test_an_own_call_alone_is_finished_in_the_same_exchange(ask: Ask, upstream: Upstream):
    upstream.will(call(GET, resource_id=STYLE), mixed(OSLO), say("Done."))
    reply = await ask()
    assert (reply.tool_calls, reply.finish_reason) == ([("get_weather", {"city": "Oslo"})], "tool_calls")
    raw = orjson.dumps(follow_up(reply, oslo="rain"))
    assert GET.encode() not in raw
    await ask(orjson.loads(raw))
    assert [m["role"] for m in without_system(upstream.requests[2])] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
