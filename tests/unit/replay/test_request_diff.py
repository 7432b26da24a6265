"""What differs between two requests."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.replay.request_diff import compare_items, compare_tools, find_moved


def item(name: str, position: int, **changes: Any) -> dict[str, Any]:
    return {"id": name, "position": position, "version": 1, "tokens": 5, **changes}


def test_items_are_added_removed_changed_and_moved() -> None:
    before = [item("a", 0), item("b", 1), item("c", 2), item("d", 3)]
    after = [item("d", 0), item("b", 1), item("c", 2, version=2, tokens=9), item("e", 3)]
    found = compare_items(before, after, ({"b": "old"}, {"b": "new"}), ("version", "tokens"))
    assert [one["id"] for one in found["added"]] == ["e"]
    assert [one["id"] for one in found["removed"]] == ["a"]
    assert found["changed"] == [
        {"id": "b", "fields": ["text"], "from": {}, "to": {}},
        {
            "id": "c",
            "fields": ["version", "tokens"],
            "from": {"version": 1, "tokens": 5},
            "to": {"version": 2, "tokens": 9},
        },
    ]
    assert found["moved"] == [{"id": "d", "from": 3, "to": 0}]


@given(st.permutations(list("abcdefg")))
def test_the_fewest_are_moved(order: list[str]) -> None:
    before = list("abcdefg")
    moved = find_moved(before, order)
    assert [one for one in before if one not in moved] == [one for one in order if one not in moved]
    # With one fewer moved the rest would not be in order.
    for one in moved:
        rest = [other for other in order if other not in moved or other == one]
        assert rest != sorted(rest)


def test_tools_are_known_by_their_names() -> None:
    tool = {"type": "function", "function": {"name": "get", "parameters": {}}}
    other = {"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}
    assert compare_tools([tool, {"type": "web"}], [other]) == {"added": [], "removed": ["web"], "changed": ["get"]}
    assert compare_tools(["odd"], [None]) == {"added": ["None"], "removed": ["odd"], "changed": []}
