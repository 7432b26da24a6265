"""One turn of a stream: chunks, read as far as needed, and the message that they add up to."""

from typing import Any

import pytest

from gateway.conversation.dialects.chat.merge import merge_deltas
from gateway.conversation.dialects.chat.stream_turn import decode_chunk
from gateway.errors import UpstreamInvalid


def test_a_chunk_s_head_is_what_it_names() -> None:
    assert decode_chunk(b'{"id":"a","created":1,"object":"x"}').head == {"id": "a", "created": 1}


def test_unknown_fields_are_no_fault() -> None:
    chunk = decode_chunk(b'{"x":[1],"choices":[{"index":0,"delta":{"content":"a"},"y":{}},{"delta":null}]}')
    assert chunk.choices is not None
    assert [choice.delta for choice in chunk.choices] == [{"content": "a"}, None]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"[]",
        b"5",
        b'{"choices":5}',
        b'{"choices":[5]}',
        b'{"choices":[{"delta":[]}]}',
        b'{"id":"\xff"}',
        b"[" * 9999,
    ],
)
def test_what_is_no_chunk_is_refused(data: bytes) -> None:
    with pytest.raises(UpstreamInvalid):
        decode_chunk(data)


def assembled(*deltas: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for delta in deltas:
        merge_deltas(message, delta)
    return message


def test_texts_grow_and_role_and_calls_are_left_out() -> None:
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo", "tool_calls": [{}]},
    ]
    assert assembled(*deltas) == {"content": "Hello"}


def test_null_says_nothing() -> None:
    assert assembled({"content": "a"}, {"content": None, "refusal": None}) == {"content": "a"}


def test_unknown_fields_are_kept() -> None:
    assert assembled({"x": 1}, {"x": 2, "y": {"a": 1}}, {"y": {"b": 2}}) == {"x": 2, "y": {"a": 1, "b": 2}}


def test_numbered_blocks_grow_by_their_index() -> None:
    deltas = [
        {"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "On"}]},
        {"reasoning_details": [{"index": 1, "type": "reasoning.encrypted", "data": "xy"}]},
        {"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "e", "signature": "s"}]},
        {"reasoning_details": [{"index": 1, "type": "reasoning.encrypted", "data": "z"}]},
    ]
    assert assembled(*deltas)["reasoning_details"] == [
        {"index": 0, "type": "reasoning.text", "text": "One", "signature": "s"},
        {"index": 1, "type": "reasoning.encrypted", "data": "xyz"},
    ]


def test_a_thinking_block_grows_until_its_signature() -> None:
    deltas = [
        {"thinking_blocks": [{"type": "thinking", "thinking": "He"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "re"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "sig"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "Next"}]},
        {"thinking_blocks": [{"type": "redacted_thinking", "data": "d1"}]},
        {"thinking_blocks": [{"type": "redacted_thinking", "data": "d2"}]},
    ]
    assert assembled(*deltas)["thinking_blocks"] == [
        {"type": "thinking", "thinking": "Here", "signature": "sig"},
        {"type": "thinking", "thinking": "Next"},
        {"type": "redacted_thinking", "data": "d1"},
        {"type": "redacted_thinking", "data": "d2"},
    ]


def test_items_that_are_no_objects_are_appended() -> None:
    assert assembled({"images": ["a"]}, {"images": ["b"]}) == {"images": ["a", "b"]}


def test_deltas_are_not_changed() -> None:
    first = {"blocks": [{"index": 0, "text": "a"}]}
    assembled(first, {"blocks": [{"index": 0, "text": "b"}]})
    assert first == {"blocks": [{"index": 0, "text": "a"}]}


def test_a_second_object_does_not_change_the_first_delta() -> None:
    first = {"extra_content": {"google": {"a": 1}}}
    assert assembled(first, {"extra_content": {"other": 2}}) == {"extra_content": {"google": {"a": 1}, "other": 2}}
    assert first == {"extra_content": {"google": {"a": 1}}}
