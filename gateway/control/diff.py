"""The differences between two versions of an object, field by field."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from gateway.strict_yaml import Keys
from gateway.validation import format_pointer

LONGEST_TEXT = 500  # code points of a value that the audit keeps
MOST_CHANGES = 100  # of one write in the audit
ORDERED = "resources"  # the mapping whose order counts; no resource can be called "order"


def list_differences(before: Any, after: Any) -> list[dict[str, Any]]:
    """All differences between two bodies: mappings by key, lists by index, everything else as a whole.

    Each as `{"pointer", "from", "to"}`; null also stands for an absent value.
    """
    return list(_walk(before, after, ()))


def encode_for_audit(differences: Sequence[Mapping[str, Any]]) -> bytes:
    """Differences as JSON for the audit, limited in number and in the length of their values."""
    short = [
        {"pointer": one["pointer"], "from": _shorten(one["from"]), "to": _shorten(one["to"])} for one in differences
    ]
    if len(short) > MOST_CHANGES:
        left = len(short) - MOST_CHANGES + 1
        short = [*short[: MOST_CHANGES - 1], _make_difference((), None, f"… and {left} more changes")]
    return orjson.dumps(short)


def _walk(before: Any, after: Any, keys: Keys) -> Iterator[dict[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _walk(before.get(key), after.get(key), (*keys, key))
        if keys == (ORDERED,):
            yield from _compare_order(list(before), list(after))
    elif isinstance(before, list) and isinstance(after, list):
        for position in range(max(len(before), len(after))):
            yield from _walk(_get_at(before, position), _get_at(after, position), (*keys, position))
    elif before != after or type(before) is not type(after):
        yield _make_difference(keys, before, after)


def _compare_order(before: list[str], after: list[str]) -> Iterator[dict[str, Any]]:
    """Reports the order unless it is the expected one: the former order with new items at the end."""
    known, kept = set(before), set(after)
    expected = [*(key for key in before if key in kept), *(key for key in after if key not in known)]
    if after != expected:
        yield _make_difference((ORDERED, "order"), before, after)


def _make_difference(keys: Keys, before: Any, after: Any) -> dict[str, Any]:
    return {"pointer": format_pointer(keys), "from": before, "to": after}


def _get_at(values: list[Any], position: int) -> Any:
    return values[position] if position < len(values) else None


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…"
    if isinstance(value, dict | list):
        text = orjson.dumps(value).decode()
        return value if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return value
