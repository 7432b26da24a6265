"""What a conversation asks just now."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from gateway.conversation.dialects.chat.request import EARLIER, find_question
from gateway.domain.search import Question


def raw(*messages: Any) -> list[Raw]:
    return [Raw(orjson.dumps(message)) for message in messages]


def said(text: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def test_the_last_user_text_is_asked_and_earlier_ones_come_newest_first() -> None:
    history = raw(said("one"), said("no", "assistant"), said("two"), said("system", "system"), said(" three "))
    assert find_question(history) == Question("three", ("two", "one"))


def test_only_a_few_earlier_texts_are_kept() -> None:
    history = raw(*(said(f"turn {number}") for number in range(10)))
    assert find_question(history) == Question("turn 9", ("turn 8", "turn 7", "turn 6"))
    assert EARLIER == 3


def test_what_follows_the_question_does_not_hide_it() -> None:
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    assert find_question(raw(said("ask"), calls, {"role": "tool", "content": "result"})) == Question("ask")


def test_text_parts_are_joined_and_others_are_left_out() -> None:
    parts = [
        {"type": "text", "text": "What is"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "this?"},
    ]
    assert find_question(raw(said(parts))) == Question("What is\nthis?")


@pytest.mark.parametrize(
    "content",
    [None, "", "  ", 5, {}, [], ["text"], [{"type": "text"}], [{"type": "text", "text": 5}], [{"type": "image_url"}]],
)
def test_a_message_without_text_asks_nothing(content: Any) -> None:
    assert find_question(raw(said(content))) is None
    assert find_question(raw(said("before"), said(content))) == Question("before")


def test_nothing_is_asked_where_the_user_is_silent() -> None:
    assert find_question([]) is None
    assert find_question(raw(said("rules", "system"), said("hello", "assistant"))) is None


@pytest.mark.parametrize(
    "message",
    [
        b"[]",
        b'"user"',
        b'{"role":null,"content":"x"}',
        b'{"role":"user","content":"\\ud800"}',
        b'{"role":"user","content":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    ],
    ids=["list", "string", "no role", "half a character", "endless nesting"],
)
def test_a_message_of_a_strange_shape_is_passed_over(message: bytes) -> None:
    assert find_question([*raw(said("ask")), Raw(message)]) == Question("ask")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.builds(lambda role, content: {"role": role, "content": content}, JSON, JSON) | JSON, max_size=6))
def test_any_messages_give_a_question_or_none(messages: list[Any]) -> None:
    found = find_question(raw(*messages))
    assert found is None or found.text.strip() == found.text != ""
