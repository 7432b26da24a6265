"""Tool calls sorted out of deltas."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.conversation.dialects.chat.calls import CallTracker, ToolCall

OWN = frozenset({"get_context_resource", "list_context_resources"})


def part(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {**fields, "function": {key: value for key, value in function.items() if value is not None}}


def filed(*deltas: dict[str, Any]) -> tuple[CallTracker, list[dict[str, Any]]]:
    """The tracker after these deltas, one per chunk, and everything that the client saw."""
    tracker, shown = CallTracker(OWN), []
    for delta in deltas:
        shown += tracker.take([delta])
    return tracker, shown + tracker.settle()


def list_own(tracker: CallTracker) -> list[ToolCall]:
    return [call for call in tracker.calls if call.own]


def list_theirs(tracker: CallTracker) -> list[ToolCall]:
    return [call for call in tracker.calls if not call.own]


def test_a_client_call_is_shown_at_once() -> None:
    tracker = CallTracker(OWN)
    delta = part("get_weather", "", index=0, id="a")
    assert tracker.take([delta]) == [delta]
    assert tracker.take([part(None, "{", index=0)]) == [part(None, "{", index=0)]


def test_an_own_call_is_never_shown() -> None:
    tracker, shown = filed(part("get_context_resource", "", index=0, id="a"), part(None, "{}", index=0))
    assert shown == []
    assert [(call.id, call.name, call.arguments) for call in list_own(tracker)] == [("a", "get_context_resource", "{}")]


def test_a_name_that_may_become_ours_waits_until_it_is_certain() -> None:
    tracker = CallTracker(OWN)
    assert tracker.take([part("get_", index=0, id="a")]) == []
    assert tracker.take([part("context_resource", index=0)]) == []
    assert tracker.take([part("_by_name", index=0)]) == [
        part("get_", index=0, id="a"),
        part("context_resource", index=0),
        part("_by_name", index=0),
    ]
    assert [call.name for call in list_theirs(tracker)] == ["get_context_resource_by_name"]


def test_an_open_name_is_settled_by_the_next_call() -> None:
    tracker = CallTracker(OWN)
    assert tracker.take([part("get", index=0, id="a")]) == []
    assert [delta["id"] for delta in tracker.take([part("get_context_resource", "{}", index=1, id="b")])] == ["a"]
    assert [call.id for call in list_theirs(tracker)] == ["a"]


def test_the_client_s_calls_are_numbered_from_0() -> None:
    _, shown = filed(
        part("list_context_resources", "{}", index=0, id="a"),
        part("one", "{}", index=1, id="b"),
        part("get_context_resource", "{}", index=2, id="c"),
        part("two", "{", index=3, id="d"),
        part(None, "}", index=3),
    )
    assert [delta["index"] for delta in shown] == [0, 1, 1]


def test_fields_of_providers_are_kept() -> None:
    signed = {"google": {"thought_signature": "s"}}
    tracker, _ = filed(
        part("list_context_resources", "", index=0, id="a", extra_content=signed), part(None, "{}", index=0)
    )
    assert tracker.calls[0].parts == {
        "id": "a",
        "type": "function",
        "function": {"name": "list_context_resources", "arguments": "{}"},
        "extra_content": signed,
    }


def test_arguments_that_are_an_object_read_as_json() -> None:
    tracker, _ = filed(part("get_context_resource", {"resource_id": "x"}, index=0, id="a"), part(None, "", index=0))
    assert list_own(tracker)[0].arguments == '{"resource_id":"x"}'


def test_null_and_nothing_change_nothing() -> None:
    call = ToolCall({"id": "a", "function": {"name": "f", "arguments": "{"}})
    call.add({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": None}})
    call.add({"id": "", "function": None})
    call.add({"function": {"name": "", "arguments": "}"}})
    assert call.parts == {"id": "a", "function": {"name": "f", "arguments": "{}"}}


def test_a_delta_without_a_function_is_no_fault() -> None:
    tracker, _ = filed({"index": 0, "id": "a"}, {"index": 0, "function": "odd"}, part("one", "{}", index=0))
    assert [(call.id, call.name) for call in list_theirs(tracker)] == [("a", "one")]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.booleans())
def test_fragments_of_any_size_make_the_same_call(sizes: list[int], own: bool) -> None:
    name, arguments = "get_context_resource" if own else "get_weather", '{"resource_id":"a/b","n":[1,{}]}'
    deltas = [part("", "", index=0, id="a")]
    at = 0
    for size in [*sizes, len(name) + len(arguments)]:
        for character in (name + arguments)[at : at + size]:
            named = at < len(name)
            deltas.append(part(character if named else None, None if named else character, index=0))
            at += 1
    tracker, shown = filed(*deltas)
    (call,) = tracker.calls
    assert (call.name, call.arguments, call.own) == (name, arguments, own)
    texts = "".join(delta["function"].get("arguments", "") for delta in shown)
    assert texts == ("" if own else arguments)
