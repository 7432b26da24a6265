"""Hidden turns: kept, found again, put back."""

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson
import pytest
from msgspec import Raw

from gateway.conversation.calls import FunctionCall
from gateway.conversation.hidden_turns import (
    ConversationOwner,
    HiddenTurn,
    HiddenTurns,
    expand_history,
    find_client_calls,
    has_same_calls,
)
from gateway.domain.chat import ChatRequest
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.errors import StoreError
from gateway.stores.memory_ephemeral import MemoryEphemeralStore


def raw(value: Any) -> Raw:
    return Raw(orjson.dumps(value))


def call(identity: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


OWNER = ConversationOwner("w", "p", "s")


def test_a_key_does_not_depend_on_the_order_of_the_calls() -> None:
    assert OWNER.make_key(["a", "b"]) == OWNER.make_key(["b", "a"])


@pytest.mark.parametrize(
    "other",
    [
        ConversationOwner("x", "p", "s"),
        ConversationOwner("w", "x", "s"),
        ConversationOwner("w", "p", "x"),
        ConversationOwner("wp", "", "s"),
    ],
)
def test_a_key_is_the_owner_s_alone(other: ConversationOwner) -> None:
    assert OWNER.make_key(["a"]) != other.make_key(["a"])


def test_a_key_does_not_confuse_a_session_with_a_call() -> None:
    assert ConversationOwner("w", "p", "a").make_key(["b"]) != ConversationOwner("w", "p", "").make_key(["a", "b"])


def test_assistant_messages_with_calls_are_found() -> None:
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
    assert {at: [one.id for one in calls] for at, calls in find_client_calls(messages).items()} == {
        1: ["a"],
        7: ["c", "d"],
    }


def test_a_kept_transcript_stands_in_place_of_what_the_client_saw() -> None:
    kept = (b'{"role":"assistant","x":1.0}', b'{"role":"tool","tool_call_id":"own","content":"r"}')
    hidden = HiddenTurn((FunctionCall("a", "f", "{}"),), kept)
    messages = [raw({"role": "user"}), raw(assistant(call("a"))), raw({"role": "tool", "tool_call_id": "a"})]
    history = expand_history(messages, find_client_calls(messages), {1: hidden.encode()})
    assert [bytes(one) for one in history] == [bytes(messages[0]), *kept, bytes(messages[2])]


def test_a_transcript_of_other_calls_is_ignored() -> None:
    messages = [raw(assistant(call("a", arguments='{"x":1}')))]
    hidden = HiddenTurn((FunctionCall("a", "f", '{"x":2}'),), (b"{}",))
    assert expand_history(messages, find_client_calls(messages), {0: hidden.encode()}) == messages


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
def test_calls_are_the_same_when_they_mean_the_same(seen: dict[str, Any], same: bool) -> None:
    (calls,) = find_client_calls([raw(assistant(seen))]).values()
    assert has_same_calls([FunctionCall("a", "f", '{"x":1}')], calls) is same


def test_arguments_that_are_no_json_are_compared_as_text() -> None:
    (calls,) = find_client_calls([raw(assistant(call("a", arguments="{half")))]).values()
    assert has_same_calls([FunctionCall("a", "f", "{half")], calls)


def test_an_encoded_turn_keeps_the_bytes_of_its_messages() -> None:
    encoded = HiddenTurn((), (b'{"big":123456789012345678901234567890}',)).encode()
    assert b"123456789012345678901234567890" in encoded
    assert msgspec.json.decode(encoded)["calls"] == []


def request(*messages: dict[str, Any]) -> ChatRequest:
    raws = [raw(message) for message in messages]
    return ChatRequest(b"[" + b",".join(map(bytes, raws)) + b"]", {}, raws, "m", stream=False)


TURN = HiddenTurn((FunctionCall("a", "f", "{}"),), (b'{"role":"assistant"}', b'{"role":"tool"}'))
FOLLOW_UP = request({"role": "user", "content": "Hi"}, assistant(call("a")), {"role": "tool", "tool_call_id": "a"})


async def test_a_kept_turn_is_restored() -> None:
    hidden = HiddenTurns(MemoryEphemeralStore())
    await hidden.keep(OWNER, TURN, set())
    history = await hidden.restore(OWNER, FOLLOW_UP, set())
    assert [bytes(one) for one in history] == [
        bytes(FOLLOW_UP.messages[0]),
        *TURN.messages,
        bytes(FOLLOW_UP.messages[2]),
    ]


async def test_a_turn_is_kept_for_its_time_only() -> None:
    now = [100.0]
    hidden = HiddenTurns(MemoryEphemeralStore(clock=lambda: now[0]), ttl=10)
    await hidden.keep(OWNER, TURN, set())
    now[0] += 9
    assert await hidden.restore(OWNER, FOLLOW_UP, set()) != FOLLOW_UP.messages
    now[0] += 2
    assert await hidden.restore(OWNER, FOLLOW_UP, set()) == FOLLOW_UP.messages


class BrokenStore(MemoryEphemeralStore):
    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        raise StoreError("down")

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        raise StoreError("down")


async def test_a_store_that_is_down_is_reported() -> None:
    hidden, kept, restored = HiddenTurns(BrokenStore()), set[str](), set[str]()
    await hidden.keep(OWNER, TURN, kept)
    assert await hidden.restore(OWNER, FOLLOW_UP, restored) is FOLLOW_UP.messages
    assert (kept, restored) == ({"store"}, {"store"})


@pytest.mark.parametrize("content", ["Hi", 'What are "tool_calls"?'])
async def test_a_history_without_calls_needs_no_store(content: str) -> None:
    plain = request({"role": "user", "content": content})
    assert await HiddenTurns(BrokenStore()).restore(OWNER, plain, set()) is plain.messages


def test_an_owner_is_named_by_its_key_and_session() -> None:
    keyed = Principal("name", workspace="w", key="k")
    assert ConversationOwner.from_principal(keyed, "s") == ConversationOwner("w", "k", "s")
    assert ConversationOwner.from_principal(ANONYMOUS, None) == ConversationOwner("default", "anonymous", "")
