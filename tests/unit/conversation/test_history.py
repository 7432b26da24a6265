"""A history counts the same whatever clients do to it, and differently when something else was said."""

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from msgspec import Raw

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.chat.history import ChatHistoryReader, read_spoken_text
from gateway.conversation.history import (
    LONGEST_JSON,
    MAX_HISTORY_CALLS,
    MAX_HISTORY_MESSAGES,
    canonicalize,
    mark_call,
    read_content,
)
from gateway.conversation.history_hash import HistoryKeys, find_keys, make_turn_keys

Messages = list[dict[str, Any]]
OWNER = b"owner"


def make_call(identity: str, name: str = "f", arguments: str = '{"x":1}') -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def make_result(identity: str, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def encode(messages: Messages) -> list[Raw]:
    return [Raw(orjson.dumps(message)) for message in messages]


def find(messages: Messages, owner: bytes = OWNER) -> HistoryKeys:
    keys = find_keys(CHAT, owner, encode(messages))
    assert keys is not None
    return keys


HISTORY: Messages = [
    {"role": "system", "content": "Today is Monday."},
    {"role": "user", "content": "One"},
    {"role": "assistant", "content": "Hm.", "tool_calls": [make_call("a"), make_call("b", "g")]},
    make_result("a", "ra"),
    make_result("b", "rb"),
    {"role": "assistant", "content": "Said."},
    {"role": "user", "content": "Two"},
    {"role": "assistant", "content": None, "tool_calls": [make_call("c", "h")]},
    make_result("c", "rc"),
]


def change(*way: Any, to: Any) -> Callable[[Messages], None]:
    """Sets what stands at a place of the history."""

    def changed(messages: Messages) -> None:
        place: Any = messages
        for step in way[:-1]:
            place = place[step]
        place[way[-1]] = to

    return changed


def rename_ids(messages: Messages) -> None:
    for message in messages:
        for call in message.get("tool_calls") or ():
            call["id"] += "-renamed"
        if "tool_call_id" in message:
            message["tool_call_id"] += "-renamed"


def swap_results(messages: Messages) -> None:
    messages[3], messages[4] = messages[4], messages[3]


def split_calls(messages: Messages) -> None:
    second = {"role": "assistant", "tool_calls": [messages[2]["tool_calls"].pop()]}
    messages.insert(4, second)


def split_text(messages: Messages) -> None:
    messages.insert(2, {"role": "assistant", "content": messages[2].pop("content")})


def interleave_notes(messages: Messages) -> None:
    messages.insert(3, {"role": "system", "content": "It is 12:01."})


def say_more(messages: Messages) -> None:
    messages.insert(5, {"role": "user", "content": "Wait"})


SAME_TO_BOTH = [
    change(2, "content", to=[{"type": "text", "text": "Hm."}]),
    change(2, "content", to=" Hm.\n"),
    change(1, "content", to=[{"type": "text", "text": "O"}, {"type": "text", "text": "ne", "cache_control": {}}]),
    change(2, "tool_calls", 0, "function", "arguments", to=' { "x" : 1.0 } '),
    change(2, "tool_calls", 0, "function", "arguments", to={"x": 1}),
    change(2, "reasoning_content", to="Thinking."),
    change(2, "tool_calls", 0, "index", to=0),
    change(7, "content", to=""),
    change(3, "content", to=[{"type": "text", "text": "ra"}]),
    swap_results,
    split_text,
    split_calls,
]
SAME_TO_THE_LENIENT = [
    rename_ids,
    interleave_notes,
    change(0, "content", to="Today is Tuesday."),
    change(2, "content", to="[redacted]"),
]
OTHERS = [
    change(1, "content", to="Other"),
    change(2, "tool_calls", 0, "function", "arguments", to='{"x":2}'),
    change(2, "tool_calls", 0, "function", "name", to="other"),
    change(3, "content", to="other"),
    change(5, "content", to="Other."),
    change(6, "content", to=[{"type": "text", "text": "Two"}, {"type": "image_url", "image_url": {"url": "x"}}]),
    say_more,
]


def find_changed(way: Callable[[Messages], None]) -> HistoryKeys:
    messages = copy.deepcopy(HISTORY)
    way(messages)
    return find(messages)


@pytest.mark.parametrize("way", SAME_TO_BOTH)
def test_what_clients_do_leaves_both_keys(way: Callable[[Messages], None]) -> None:
    known, changed = find(HISTORY), find_changed(way)
    assert changed.lenient == known.lenient
    assert changed.exact[2] == known.exact[2]


@pytest.mark.parametrize("way", SAME_TO_THE_LENIENT)
def test_what_some_clients_do_leaves_the_lenient_key(way: Callable[[Messages], None]) -> None:
    known, changed = find(HISTORY), find_changed(way)
    assert changed.lenient == known.lenient
    assert changed.exact[2] != known.exact[2]


@pytest.mark.parametrize("way", OTHERS)
def test_another_history_has_other_keys(way: Callable[[Messages], None]) -> None:
    known, changed = find(HISTORY), find_changed(way)
    assert changed.lenient[2] != known.lenient[2]
    assert changed.exact[2] != known.exact[2]


def test_joined_messages_have_the_lenient_keys_of_the_single_ones() -> None:
    steps = [HISTORY[1], HISTORY[2], *HISTORY[3:5], HISTORY[7], HISTORY[8]]
    joined = [
        HISTORY[1],
        {"role": "assistant", "content": "Hm.", "tool_calls": HISTORY[2]["tool_calls"] + HISTORY[7]["tool_calls"]},
        *(HISTORY[at] for at in (3, 4, 8)),
    ]
    assert find(joined).lenient == find(steps).lenient


def test_other_owners_have_other_keys() -> None:
    known, other = find(HISTORY), find(HISTORY, b"other")
    assert not {*known.exact.values(), *known.lenient.values()} & {*other.exact.values(), *other.lenient.values()}


def test_calls_that_are_alike_have_keys_of_their_own() -> None:
    again = {"role": "assistant", "content": None, "tool_calls": [make_call("call_0")]}
    keys = find([HISTORY[1], again, make_result("call_0", "1"), again, make_result("call_0", "2")])
    assert len({*keys.exact.values(), *keys.lenient.values()}) == 4


def test_a_turn_is_found_where_it_was_kept() -> None:
    keys = find(HISTORY)
    kept = make_turn_keys(
        CHAT, OWNER, encode(HISTORY[:2]), "Hm.", [mark_call("b", "g", '{"x":1}'), mark_call("a", "f", '{"x":1.0}')]
    )
    assert kept is not None
    assert kept.exact == keys.exact[0]
    kept = make_turn_keys(CHAT, OWNER, encode(HISTORY[:7]), "", [mark_call("c", "h", '{"x": 1}')])
    assert kept is not None
    assert (kept.exact, kept.lenient) == (keys.exact[2], keys.lenient[2])


def test_a_text_that_the_assistant_was_to_continue_is_no_answer_yet() -> None:
    begun: Messages = [{"role": "user", "content": "Go on"}, {"role": "assistant", "content": "So"}]
    kept = make_turn_keys(CHAT, OWNER, encode(begun), "then", [mark_call("a", "f", "{}")])
    whole: Messages = [*begun, {"role": "assistant", "content": "then", "tool_calls": [make_call("a", arguments="")]}]
    assert kept is not None
    assert (kept.exact, kept.lenient) == (find(whole).exact[0], find(whole).lenient[0])


def test_of_calls_with_one_id_the_first_is_answered_first() -> None:
    reader = ChatHistoryReader()
    calls = [make_call("call_0"), make_call("call_0", "g")]
    messages = [{"role": "assistant", "tool_calls": calls}, make_result("call_0", "1"), make_result("call_0", "2")]
    assert reader.read(encode([*messages, make_result("call_0", "3")]))
    assert [call.result for call in reader.calls] == [[b"t1"], [b"t2"]]
    assert [message.answered and message.answered.number for message in reader.messages] == [None, 0, 1, None]


@pytest.mark.parametrize(
    "odd",
    [
        {"role": "assistant", "tool_calls": "odd"},
        {"role": "assistant", "tool_calls": [1]},
        {"role": "assistant", "tool_calls": [{"function": "odd"}]},
        {"role": 5},
        {"content": "no role"},
        {"role": "user", "content": 5},
        {"role": "user", "content": [1, "a", None]},
        {"role": "tool", "content": {"a": 1}},
    ],
)
def test_odd_messages_count_as_they_are(odd: dict[str, Any]) -> None:
    call = {"role": "assistant", "tool_calls": [make_call("a")]}
    assert find([odd, call]).lenient == find([odd, call]).lenient
    assert find([odd, call]).lenient != find([call]).lenient


def test_ids_and_names_of_another_kind_are_read_as_text() -> None:
    keys = find([{"role": "assistant", "tool_calls": [{"id": 7, "function": {"name": "f", "arguments": None}}]}])
    assert keys.calls[0].mark == mark_call("7", "f", "{}")


def test_long_histories_are_not_read() -> None:
    user = {"role": "user", "content": "x"}
    call = {"role": "assistant", "tool_calls": [make_call("a")]}
    assert find_keys(CHAT, OWNER, encode([user])) is None
    assert find_keys(CHAT, OWNER, encode([user] * (MAX_HISTORY_MESSAGES - 1) + [call])) is not None
    assert find_keys(CHAT, OWNER, encode([user] * MAX_HISTORY_MESSAGES + [call])) is None
    assert (
        make_turn_keys(CHAT, OWNER, encode([user] * (MAX_HISTORY_MESSAGES + 1)), "", [mark_call("a", "f", "")]) is None
    )
    many = {"role": "assistant", "tool_calls": [make_call("a")] * (MAX_HISTORY_CALLS + 1)}
    assert find_keys(CHAT, OWNER, encode([user, many])) is None


DEEP = "[" * 100_000 + "]" * 100_000
NESTED = "[" * 900 + "]" * 900  # what a shallow stack could just read


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":[2]}', ' {"b" : [2.0], "a": 1e0}', True),
        ('"\\u00e9"', '"é"', True),
        ('"\\ud800"', '"\\ud801"', False),
        ("12345678901234567890", "12345678901234567000", True),  # what JavaScript makes of it
        ('{"a":', '{"a":', True),
        ('{"a":', '{"a": ', False),
        (DEEP, DEEP, True),
        (NESTED, " " + NESTED, False),
        (DEEP, " " + DEEP, False),
        ("1" * 5000, "1" * 5000, True),
        (f'"{"x" * LONGEST_JSON}"', f' "{"x" * LONGEST_JSON}"', False),
    ],
)
def test_json_is_compared_as_a_value_as_far_as_it_can_be(one: str, other: str, same: bool) -> None:
    assert (canonicalize(one) == canonicalize(other)) is same


def test_arguments_that_are_nested_too_deeply_are_compared_as_text() -> None:
    call = make_call("a", arguments=DEEP)
    keys = find([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}])
    assert keys.calls[0].mark == mark_call("a", "f", DEEP)
    raw = orjson.dumps({"role": "assistant"})[:-1] + b',"tool_calls":[{"id":"a","function":{"name":"f","arguments":'
    reader = ChatHistoryReader()
    assert reader.read([Raw(raw + DEEP.encode() + b"}}]}")])
    assert reader.calls == []


@pytest.mark.parametrize("empty", ["null", '""', "[]", '[{"type":"text","text":""}]'])
def test_no_content_is_the_same_however_it_is_written(empty: str) -> None:
    assert read_content(Raw(empty.encode())) == []


def test_text_and_other_parts_keep_their_order() -> None:
    image = {"type": "image_url", "image_url": {"url": "x"}}
    marked = image | {"cache_control": {"type": "ephemeral"}}
    text = {"type": "text", "text": "a"}
    first, second, third = (
        read_content(Raw(orjson.dumps(parts))) for parts in ([text, image], [text, marked], [image, text])
    )
    assert first == second != third


@pytest.mark.parametrize(
    "content", ["So  it\nis.", [{"type": "text", "text": "So it"}, {"type": "text", "text": " is."}]]
)
def test_what_an_assistant_says_is_read_without_spaces(content: Any) -> None:
    assert read_spoken_text(orjson.dumps({"role": "assistant", "content": content})) == "Soitis."
    assert read_spoken_text(b"{}") == ""
