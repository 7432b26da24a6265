"""Hidden turns: kept, found again, put back."""

from typing import Any

import msgspec
import orjson
import pytest
from msgspec import Raw

from gateway.conversation.hidden_turns import ConversationOwner, HiddenTurn, calls_in, expand, same_calls


def raw(value: Any) -> Raw:
    return Raw(orjson.dumps(value))


def call(identity: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


OWNER = ConversationOwner("w", "p", "s")


def test_a_key_does_not_depend_on_the_order_of_the_calls():
    assert OWNER.key(["a", "b"]) == OWNER.key(["b", "a"])


@pytest.mark.parametrize(
    "other",
    [
        ConversationOwner("x", "p", "s"),
        ConversationOwner("w", "x", "s"),
        ConversationOwner("w", "p", "x"),
        ConversationOwner("wp", "", "s"),
    ],
)
def test_a_key_is_the_owner_s_alone(other: ConversationOwner):
    assert OWNER.key(["a"]) != other.key(["a"])


def test_a_key_does_not_confuse_a_session_with_a_call():
    assert ConversationOwner("w", "p", "a").key(["b"]) != ConversationOwner("w", "p", "").key(["a", "b"])


def test_assistant_messages_with_calls_are_found():
    messages = [
        raw({"role": "user", "content": 'I like "tool_calls"'}),
        raw(assistant(call("a"))),
        raw({"role": "tool", "tool_call_id": "a", "content": "x"}),
        raw({"role": "assistant", "tool_calls": None}),
        raw({"role": "assistant", "tool_calls": []}),
        raw({"role": "assistant", "tool_calls": "odd"}),
        raw({"role": "user", "tool_calls": [call("b")]}),
        raw(assistant(call("c"), call("d"))),
    ]
    assert {at: [one.id for one in calls] for at, calls in calls_in(messages).items()} == {1: ["a"], 7: ["c", "d"]}


def test_a_kept_transcript_stands_in_place_of_what_the_client_saw():
    kept = (b'{"role":"assistant","x":1.0}', b'{"role":"tool","tool_call_id":"own","content":"r"}')
    hidden = HiddenTurn((("a", "f", "{}"),), kept)
    messages = [raw({"role": "user"}), raw(assistant(call("a"))), raw({"role": "tool", "tool_call_id": "a"})]
    history = expand(messages, calls_in(messages), {1: hidden.dump()})
    assert [bytes(one) for one in history] == [bytes(messages[0]), *kept, bytes(messages[2])]


def test_a_transcript_of_other_calls_is_ignored():
    messages = [raw(assistant(call("a", arguments='{"x":1}')))]
    hidden = HiddenTurn((("a", "f", '{"x":2}'),), (b"{}",))
    assert expand(messages, calls_in(messages), {0: hidden.dump()}) == messages


@pytest.mark.parametrize(
    ("seen", "same"),
    [
        (call("a", arguments=' {"x": 1} '), True),
        (call("a", arguments='{"x":2}'), False),
        (call("a", arguments='{"x":'), False),
        (call("a", name="g", arguments='{"x":1}'), False),
        (call("b", arguments='{"x":1}'), False),
    ],
)
def test_calls_are_the_same_when_they_mean_the_same(seen: dict[str, Any], same: bool):
    (calls,) = calls_in([raw(assistant(seen))]).values()
    assert same_calls([("a", "f", '{"x":1}')], calls) is same


def test_arguments_that_are_no_json_are_compared_as_text():
    (calls,) = calls_in([raw(assistant(call("a", arguments="{half")))]).values()
    assert same_calls([("a", "f", "{half")], calls)


def test_a_dump_keeps_the_bytes_of_its_messages():
    dump = HiddenTurn((), (b'{"big":123456789012345678901234567890}',)).dump()
    assert b"123456789012345678901234567890" in dump
    assert msgspec.json.decode(dump)["calls"] == []
