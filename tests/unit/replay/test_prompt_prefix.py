"""How much of a prompt begins like the one before."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gateway.replay.prompt_prefix import PromptUse, find_common_prefix, format_message, measure_prompts


def count(text: str) -> int:
    return len(text)


def body(*texts: str, tools: Any = None) -> dict[str, Any]:
    messages = [{"role": "user", "content": text} for text in texts]
    return {"messages": messages, **({"tools": tools} if tools else {})}


def test_whole_messages_and_the_beginning_of_the_next_are_in_common() -> None:
    (use,) = measure_prompts([body("one", "two"), body("one", "three", "four")], count)
    head = len("user\n")
    assert use == PromptUse(3 * head + 3 + 5 + 4, 2 * head + 6, 2 * head + 3 + 1)


def test_a_change_of_the_tools_leaves_nothing() -> None:
    (use,) = measure_prompts([body("one", tools=[{"a": 1}]), body("one", tools=[{"b": 1}])], count)
    assert use.prefix == len('[{"')


def test_a_longer_conversation_has_all_of_the_shorter_one() -> None:
    (use,) = measure_prompts([body("a", "b"), body("a", "b", "c")], count)
    assert use.prefix == use.reusable


def test_text_in_parts_reads_like_a_string() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert format_message({"role": "user", "content": parts}) == format_message({"role": "user", "content": "one\ntwo"})
    image = {"type": "image_url", "image_url": {"url": "x"}}
    assert orjson.dumps(image).decode() in format_message({"role": "user", "content": [image]})
    assert "call_1" in format_message({"role": "assistant", "content": None, "tool_calls": [{"id": "call_1"}]})


@given(st.text(), st.text(), st.text())
def test_the_prefix_is_the_longest_one(head: str, one: str, other: str) -> None:
    found = find_common_prefix(head + one, head + other)
    assert found.startswith(head)
    assert (head + one).startswith(found)
    assert (head + other).startswith(found)
    rest = (head + one)[len(found) :], (head + other)[len(found) :]
    assert not rest[0] or not rest[1] or rest[0][0] != rest[1][0]
