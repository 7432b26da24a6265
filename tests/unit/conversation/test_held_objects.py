"""Finding the objects that a request names takes linear time, and misses none of them."""

import gc
import json
import time

import pytest

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.held_objects import (
    MAX_FOUND,
    SEVERAL,
    SINGLE_IDS,
    HeldObject,
    find_held_objects,
    may_name_objects,
)
from gateway.errors import InvalidJson, InvalidRequest


def find(body: object) -> list[HeldObject]:
    return find_held_objects(json.dumps(body).encode())


def test_every_object_is_found_with_its_place() -> None:
    body = {"input": [{"content": [{"file_id": "a"}, [{"file_ids": ["b", "c"]}]]}], "prompt": {"id": "p"}}
    assert {(one.field, one.identity) for one in find(body)} == {
        ("input[0].content[0].file_id", "a"),
        ("input[0].content[1][0].file_ids", "b"),
        ("input[0].content[1][0].file_ids", "c"),
        ("prompt.id", "p"),
    }


@pytest.mark.parametrize("value", [None, 5, {"type": "string"}, [], ""])
def test_what_is_no_id_is_no_object(value: object) -> None:
    assert find({"file_id": value, "container": value, "vector_store_ids": value, "prompt": value}) == []


def test_a_prompt_that_is_a_text_is_no_object() -> None:
    assert find({"prompt": "Once upon a time", "file_ids": "text"}) == []


@pytest.mark.parametrize("name", [*SINGLE_IDS, *sorted(SEVERAL)])
def test_a_body_that_names_an_object_is_looked_at(name: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": [{name: "a"}]}]}
    assert may_name_objects(CHAT.decode(json.dumps(body).encode()))


def test_a_conversation_with_tools_is_not_looked_at() -> None:
    body = {"model": "m", "messages": [{"role": "tool", "tool_call_id": "c"}], "metadata": {"user_id": "u"}}
    assert not may_name_objects(CHAT.decode(json.dumps(body).encode()))


def test_an_earlier_message_is_an_object_only_where_it_is_continued() -> None:
    assert find({"diagnostics": {"previous_message_id": "msg_1"}}) == []
    (found,) = find({"thread": {"type": "continue", "previous_message_id": "msg_1"}})
    assert found.field == "thread.previous_message_id"


def test_two_types_hide_nothing() -> None:
    body = b'{"content":[{"type":"output_text","type":"input_file","annotations":[{"file_id":"a"}]}]}'
    assert [one.identity for one in find_held_objects(body)] == ["a"]


def test_a_body_that_names_too_many_or_is_too_deep_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="1000"):
        find({"file_ids": ["a"] * (MAX_FOUND + 1)})
    with pytest.raises(InvalidJson):
        find_held_objects(b"[" * 100_000 + b"]" * 100_000)


def test_deep_and_wide_bodies_take_linear_time() -> None:
    def measure(width: int) -> float:
        body = b'{"a":' * 200 + b"[" + b",".join([b'{"b":[{"c":1}]}'] * width) + b"]" + b"}" * 200
        gc.disable()  # how long a collection takes depends on all that other tests have left
        try:
            began = time.process_time()
            assert find_held_objects(body) == []
            return time.process_time() - began
        finally:
            gc.enable()

    measure(1000)
    # Eight times the size: 64 times as long if it were quadratic.
    assert min(measure(40_000) for _ in range(3)) < 32 * max(min(measure(5_000) for _ in range(3)), 0.001)
