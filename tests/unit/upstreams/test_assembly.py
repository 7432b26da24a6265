"""Messages put together from deltas."""

from typing import Any

from gateway.conversation.chunks import grow


def assembled(*deltas: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for delta in deltas:
        grow(message, delta)
    return message


def test_texts_grow_and_role_and_calls_are_left_out():
    deltas = [{"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo", "tool_calls": [{}]}]
    assert assembled(*deltas) == {"content": "Hello"}


def test_null_says_nothing():
    assert assembled({"content": "a"}, {"content": None, "refusal": None}) == {"content": "a"}


def test_unknown_fields_are_kept():
    assert assembled({"x": 1}, {"x": 2, "y": {"a": 1}}, {"y": {"b": 2}}) == {"x": 2, "y": {"a": 1, "b": 2}}


def test_numbered_blocks_grow_by_their_index():
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


def test_a_thinking_block_grows_until_its_signature():
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


def test_items_that_are_no_objects_are_appended():
    assert assembled({"images": ["a"]}, {"images": ["b"]}) == {"images": ["a", "b"]}


def test_deltas_are_not_changed():
    first = {"blocks": [{"index": 0, "text": "a"}]}
    assembled(first, {"blocks": [{"index": 0, "text": "b"}]})
    assert first == {"blocks": [{"index": 0, "text": "a"}]}


def test_a_second_object_does_not_change_the_first_delta():
    first = {"extra_content": {"google": {"a": 1}}}
    assert assembled(first, {"extra_content": {"other": 2}}) == {"extra_content": {"google": {"a": 1}, "other": 2}}
    assert first == {"extra_content": {"google": {"a": 1}}}
