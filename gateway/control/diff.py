"""What differs between two versions of an object, field by field."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from gateway.control.pointers import pointer

LONGEST_TEXT = 500  # code points of a value that the audit keeps
MOST_CHANGES = 100  # of one write in the audit
ORDERED = "resources"  # the mapping whose order counts; no resource can be called "order"

Keys = tuple[str | int, ...]


def differences(before: Any, after: Any) -> list[dict[str, Any]]:
    """Everything that differs between two bodies: mappings by key, lists by index, the rest as a whole.

    Each as `{"pointer", "from", "to"}`, where null stands for a value that is absent, too.
    """
    return list(_walk(before, after, ()))


def bounded(found: Sequence[Mapping[str, Any]]) -> bytes:
    """Differences as JSON for the audit, bounded in number and in the length of their values."""
    told = [{"pointer": one["pointer"], "from": _short(one["from"]), "to": _short(one["to"])} for one in found]
    if len(told) > MOST_CHANGES:
        left = len(told) - MOST_CHANGES + 1
        told = [*told[: MOST_CHANGES - 1], _difference((), None, f"… and {left} more changes")]
    return orjson.dumps(told)


def _walk(before: Any, after: Any, keys: Keys) -> Iterator[dict[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _walk(before.get(key), after.get(key), (*keys, key))
        if keys == (ORDERED,):
            yield from _order(list(before), list(after))
    elif isinstance(before, list) and isinstance(after, list):
        for place in range(max(len(before), len(after))):
            yield from _walk(_at(before, place), _at(after, place), (*keys, place))
    elif before != after or type(before) is not type(after):
        yield _difference(keys, before, after)


def _order(before: list[str], after: list[str]) -> Iterator[dict[str, Any]]:
    """Tells the order unless it is what anybody would think: the former one, and what is new behind it."""
    expected = [*(key for key in before if key in after), *(key for key in after if key not in before)]
    if after != expected:
        yield _difference((ORDERED, "order"), before, after)


def _difference(keys: Keys, before: Any, after: Any) -> dict[str, Any]:
    return {"pointer": pointer(keys), "from": before, "to": after}


def _at(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else None


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…"
    if isinstance(value, dict | list):
        text = orjson.dumps(value).decode()
        return value if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return value
