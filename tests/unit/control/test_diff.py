"""What differs between two versions of an object."""

from typing import Any

import orjson
import pytest

from gateway.control.diff import LONGEST_TEXT, MOST_CHANGES, encode_for_audit, list_differences


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("/a", 1, 2)]),
        ({}, {"a": 2}, [("/a", None, 2)]),
        ({"a": 1}, {}, [("/a", 1, None)]),
        ({"a": {"b/c": 1}}, {"a": {"b/c": 2}}, [("/a/b~1c", 1, 2)]),
        ({"a": [1, 2]}, {"a": [1, 3, 4]}, [("/a/1", 2, 3), ("/a/2", None, 4)]),
        ({"a": [1]}, {"a": {"0": 1}}, [("/a", [1], {"0": 1})]),
        ({"a": 1}, {"a": True}, [("/a", 1, True)]),
        ({"a": 1}, {"a": 1.0}, [("/a", 1, 1.0)]),
    ],
)
def test_differences_are_found_field_by_field(before: Any, after: Any, found: list[Any]) -> None:
    assert [(one["pointer"], one["from"], one["to"]) for one in list_differences(before, after)] == found


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (["a", "b"], ["a", "b", "c"], False),
        (["a", "b", "c"], ["a", "c"], False),
        (["a", "b"], ["b", "a"], True),
        (["a", "b"], ["c", "a", "b"], True),
        (["a"], ["b"], False),
    ],
)
def test_the_order_of_resources_is_told_where_it_is_not_what_anybody_would_think(
    before: list[str], after: list[str], told: bool
) -> None:
    found = list_differences({"resources": dict.fromkeys(before, 1)}, {"resources": dict.fromkeys(after, 1)})
    order = [(one["from"], one["to"]) for one in found if one["pointer"] == "/resources/order"]
    assert order == ([(before, after)] if told else [])


def test_the_audit_keeps_a_bounded_part() -> None:
    many = list_differences({}, {f"k{number}": "x" * 10_000 for number in range(1000)})
    kept = orjson.loads(encode_for_audit(many))
    assert len(kept) == MOST_CHANGES
    assert all(len(one["to"]) <= LONGEST_TEXT for one in kept)
    assert kept[-1]["to"] == f"… and {1000 - MOST_CHANGES + 1} more changes"
    deep = orjson.loads(encode_for_audit(list_differences({}, {"a": {"b": ["x" * 10_000]}})))
    assert len(deep[0]["to"]) == LONGEST_TEXT
