"""Whose hidden turns come back, and what clients may do to their histories (decision 016)."""

import hashlib
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.support.gateway import (
    NAMES,
    NAMES_RESULT,
    POLICIES,
    STYLE,
    STYLE_RESULT,
    WEATHER,
    Client,
    ClientReply,
    Start,
)
from tests.support.upstream import Upstream, mixed, say, tool_call

GET, LIST = "get_context_resource", "list_context_resources"
Message = dict[str, Any]
# Ids as some providers give them: they begin anew with every reply.
READ_STYLE, READ_NAMES = tool_call(GET, "call_0", resource_id=STYLE), tool_call(GET, "call_0", resource_id=NAMES)
OSLO, ROME = tool_call("get_weather", "call_1", city="Oslo"), tool_call("get_weather", "call_2", city="Rome")
KEY = {"name": "desk", "sha256": hashlib.sha256(b"desk").hexdigest(), "rights": ["act_as_user"]}


def ask_user(text: str = "Tidy this") -> Message:
    return {"role": "user", "content": text}


def make_result(identity: str, content: str) -> Message:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def see(reply: ClientReply) -> Message:
    """The message that a client puts into its history."""
    return {"role": "assistant", "content": reply.text or None, "tool_calls": reply.message["tool_calls"]}


def list_sent(upstream: Upstream, number: int = -1) -> list[Message]:
    return [message for message in upstream.requests[number]["messages"] if message["role"] != "system"]


@pytest.fixture
def desk(start: Start, upstream: Upstream) -> Client:
    return start(auth={"keys": [KEY]})


def say_as(user: str, stream: bool, **said: Any) -> dict[str, Any]:
    return {"agent": "editor", "key": "desk", "context": {"user": user}, "tools": [WEATHER], "stream": stream, **said}


async def test_users_of_one_key_do_not_share_hidden_turns(desk: Client, upstream: Upstream, stream: bool):
    first, second = mixed(READ_STYLE, OSLO), mixed(READ_NAMES, OSLO)
    upstream.will(first, second, say("Done."), say("Done."))
    ann = [ask_user(), see(await desk.chat([ask_user()], **say_as("ann", stream))), make_result("call_1", "rain")]
    ben = [ask_user(), see(await desk.chat([ask_user()], **say_as("ben", stream))), make_result("call_1", "rain")]
    await desk.chat(ann, **say_as("ann", stream))
    assert list_sent(upstream) == [ask_user(), first.message, make_result("call_0", STYLE_RESULT), ann[2]]
    await desk.chat(ben, **say_as("ben", stream))
    assert list_sent(upstream) == [ask_user(), second.message, make_result("call_0", NAMES_RESULT), ben[2]]


async def test_conversations_of_one_user_do_not_share_them(desk: Client, upstream: Upstream, stream: bool):
    first, second = mixed(READ_STYLE, OSLO), mixed(READ_NAMES, OSLO)
    upstream.will(first, second, say("Done."), say("Done."))
    questions = [ask_user("One"), ask_user("Two")]
    histories = [
        [question, see(await desk.chat([question], **say_as("ann", stream))), make_result("call_1", "rain")]
        for question in questions
    ]
    for history, answer, result in zip(histories, (first, second), (STYLE_RESULT, NAMES_RESULT), strict=True):
        await desk.chat(history, **say_as("ann", stream))
        assert list_sent(upstream) == [history[0], answer.message, make_result("call_0", result), history[2]]


async def test_a_turn_that_hid_nothing_gets_nothing_of_another_conversation(
    desk: Client, upstream: Upstream, stream: bool
):
    upstream.will(mixed(READ_STYLE, OSLO), say("Done."))
    await desk.chat([ask_user("One")], **say_as("ann", stream))
    call = {"role": "assistant", "content": None, "tool_calls": [OSLO]}
    history = [ask_user("Two"), call, make_result("call_1", "rain")]
    await desk.chat(history, **say_as("ann", stream))
    assert list_sent(upstream) == history


async def test_of_two_turns_with_the_same_calls_none_is_lost(gateway: Client, upstream: Upstream, stream: bool):
    said = {"agent": "editor", "session": f"twice-{stream}", "tools": [WEATHER], "stream": stream}
    first, second = mixed(READ_STYLE, OSLO), mixed(READ_NAMES, OSLO)
    upstream.will(first, second, say("Done."))
    history = [ask_user()]
    for _ in range(2):
        history += [see(await gateway.chat(history, **said)), make_result("call_1", "rain")]
    await gateway.chat(history, **said)
    assert list_sent(upstream) == [
        ask_user(),
        first.message,
        make_result("call_0", STYLE_RESULT),
        make_result("call_1", "rain"),
        second.message,
        make_result("call_0", NAMES_RESULT),
        make_result("call_1", "rain"),
    ]


def rename_ids(history: list[Message]) -> None:
    for message in history:
        for call in message.get("tool_calls") or ():
            call["id"] = f"toolu_{call['id']}"
        if message["role"] == "tool":
            message["tool_call_id"] = f"toolu_{message['tool_call_id']}"


def number_ids(history: list[Message]) -> None:
    """The client's first call gets the id that our call has."""
    names = {"call_1": "call_0", "call_2": "call_1"}
    for message in history:
        for call in message.get("tool_calls") or ():
            call["id"] = names[call["id"]]
        if message["role"] == "tool":
            message["tool_call_id"] = names[message["tool_call_id"]]


def split_text(history: list[Message]) -> None:
    history.insert(1, {"role": "assistant", "content": history[1].pop("content")})


def split_calls(history: list[Message]) -> None:
    history.insert(3, {"role": "assistant", "tool_calls": [history[1]["tool_calls"].pop()]})


def swap_results(history: list[Message]) -> None:
    history[2], history[3] = history[3], history[2]


def write_like_javascript(history: list[Message]) -> None:
    history[0]["content"] = [{"type": "text", "text": history[0]["content"]}]
    history[1]["content"] = [{"type": "text", "text": history[1]["content"]}]
    for call in history[1]["tool_calls"]:
        call["function"]["arguments"] = orjson.dumps(orjson.loads(call["function"]["arguments"]), option=2).decode()


def write_like_python(history: list[Message]) -> None:
    history[1] |= {"refusal": None, "annotations": [], "function_call": None, "content": f"{history[1]['content']}\n"}


def tell_the_time(history: list[Message]) -> None:
    history.insert(0, {"role": "system", "content": "It is 12:02."})


@pytest.mark.parametrize(
    "change",
    [
        rename_ids,
        number_ids,
        split_text,
        split_calls,
        swap_results,
        write_like_javascript,
        write_like_python,
        tell_the_time,
    ],
)
async def test_clients_that_change_their_history_get_what_was_hidden(
    gateway: Client, upstream: Upstream, stream: bool, change: Callable[[list[Message]], None]
):
    said = {"agent": "editor", "session": f"{change.__name__}-{stream}", "tools": [WEATHER], "stream": stream}
    answer = mixed(READ_STYLE, OSLO, ROME, text="Hm.", x_signature="s")
    upstream.will(answer, say("Done."))
    history = [ask_user(), see(await gateway.chat([ask_user()], **said))]
    history += [make_result("call_1", "rain"), make_result("call_2", "sun")]
    change(history)
    await gateway.chat(history, **said)
    _, message, own, *theirs = list_sent(upstream)
    assert (message["content"], message["x_signature"]) == ("Hm.", "s")
    assert [call["function"] for call in message["tool_calls"]] == [
        one["function"] for one in answer.message["tool_calls"]
    ]
    own_id, *client_ids = [call["id"] for call in message["tool_calls"]]
    assert own == make_result(own_id, STYLE_RESULT)
    assert own_id not in client_ids
    assert client_ids == [call["id"] for one in history for call in one.get("tool_calls") or ()]
    assert theirs == [one for one in history if one["role"] == "tool"]


async def test_the_client_s_edit_wins(gateway: Client, upstream: Upstream, stream: bool):
    said = {"agent": "editor", "session": f"edit-{stream}", "tools": [WEATHER], "stream": stream}
    upstream.will(
        mixed(READ_STYLE, text="Secret one."), mixed(OSLO, text="Secret two.", reasoning="Secret."), say("Done.")
    )
    history = [ask_user(), see(await gateway.chat([ask_user()], **said)), make_result("call_1", "rain")]
    assert history[1]["content"] == "Secret one.\n\nSecret two."
    history[1]["content"] = "[redacted]"
    await gateway.chat(history, **said)
    assert b"Secret" not in upstream.bodies[-1]
    assert list_sent(upstream) == [
        ask_user(),
        {"role": "assistant", "content": None, "tool_calls": [READ_STYLE]},
        make_result("call_0", STYLE_RESULT),
        history[1],
        history[2],
    ]


async def test_another_agent_gets_only_what_it_offers(gateway: Client, upstream: Upstream, stream: bool):
    said = {"session": f"agents-{stream}", "tools": [WEATHER], "stream": stream}
    upstream.will(mixed(READ_STYLE, OSLO), say("Done."), say("Done."), say("Done."))
    history = [ask_user(), see(await gateway.chat([ask_user()], agent="editor", **said)), make_result("call_1", "rain")]
    for agent in ("greeter", "bare"):
        await gateway.chat(history, agent=agent, **said)
        assert list_sent(upstream) == history
    await gateway.chat(history, agent="hasty", **said)
    assert make_result("call_0", STYLE_RESULT) in list_sent(upstream)


@pytest.mark.parametrize("own", [READ_STYLE, tool_call(LIST, "call_0")])
async def test_what_was_withdrawn_does_not_come_back(
    start: Start, upstream: Upstream, tmp_path: Any, stream: bool, own: Message
):
    store = f"sqlite:///{tmp_path}/{stream}.db"
    upstream.will(mixed(own, OSLO), say("Done."))
    said = {"agent": "editor", "tools": [WEATHER], "stream": stream}
    history = [ask_user(), see(await start(store=store).chat([ask_user()], **said)), make_result("call_1", "rain")]
    house = POLICIES["contexts"]["house"]
    left = {name: one for name, one in house["resources"].items() if name != "style"}
    policies = POLICIES | {"contexts": POLICIES["contexts"] | {"house": house | {"resources": left}}}
    await start(store=store, policies=policies).chat(history, **said)
    assert list_sent(upstream) == history


@pytest.mark.parametrize("depth", [200, 900, 1015, 5000])
async def test_arguments_of_any_depth_are_no_harm(gateway: Client, upstream: Upstream, stream: bool, depth: int):
    said = {"agent": "editor", "session": f"deep-{depth}-{stream}", "tools": [WEATHER], "stream": stream}
    deep = tool_call("get_weather", "call_1")
    deep["function"]["arguments"] = '{"a":' * depth + "1" + "}" * depth
    answer = mixed(READ_STYLE, deep)
    upstream.will(answer.but(pieces=100_000), say("Done."))
    history = [ask_user(), see(await gateway.chat([ask_user()], **said)), make_result("call_1", "rain")]
    reply = await gateway.chat(history, **said)
    assert (reply.status, reply.text) == (200, "Done.")
    assert list_sent(upstream)[1] == answer.message


@pytest.mark.parametrize(
    ("messages", "param"), [([], "messages"), ([{"content": "Hi"}], "messages[0].role"), ([{}], "messages[0].role")]
)
async def test_messages_that_no_upstream_accepts_are_refused_where_we_inject(
    gateway: Client, upstream: Upstream, stream: bool, messages: list[Message], param: str
):
    reply = await gateway.chat(messages, agent="editor", stream=stream)
    assert reply.status == 400
    assert (reply.error["type"], reply.error["code"]) == ("invalid_request_error", "invalid_request")
    assert reply.error["param"] == param
    assert upstream.seen == []
    upstream.will(say("As you like."))
    body = orjson.dumps({"model": "m-large", "messages": messages, "stream": stream})
    relayed = await gateway.post(body, x_context_agent="bare")
    assert (relayed.status, upstream.bodies) == (200, [body])
