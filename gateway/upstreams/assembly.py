"""An assistant message put together again from its deltas, so that it can go back upstream."""

from typing import Any


def grow(message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add one delta (without its tool calls) to the message; unknown fields are kept."""
    for key, value in delta.items():
        if value is None or key in ("tool_calls", "role"):
            continue
        known = message.get(key)
        if isinstance(known, str) and isinstance(value, str):
            message[key] = known + value
        elif isinstance(known, list) and isinstance(value, list):
            extend(known, value)
        elif isinstance(known, dict) and isinstance(value, dict):
            message[key] = known | value
        else:
            message[key] = (
                [dict(item) if isinstance(item, dict) else item for item in value] if isinstance(value, list) else value
            )


def extend(known: list[Any], added: list[Any]) -> None:
    """Append list items, continuing the item that a fragment belongs to.

    Reasoning blocks arrive in fragments: numbered ones carry an `index`; others continue the last item of their type
    until a signature closes it.
    """
    for item in added:
        target = continued(known, item)
        if target is None:
            known.append(dict(item) if isinstance(item, dict) else item)
            continue
        for key, value in item.items():
            grows = isinstance(value, str) and isinstance(target.get(key), str) and key in FRAGMENTED
            target[key] = target[key] + value if grows else value


FRAGMENTED = frozenset({"thinking", "text", "summary", "signature", "data"})


def continued(known: list[Any], item: Any) -> dict[str, Any] | None:
    """The item of `known` that `item` is a further fragment of."""
    if not isinstance(item, dict):
        return None
    if "index" in item:
        return next((old for old in known if isinstance(old, dict) and old.get("index") == item["index"]), None)
    last = known[-1] if known else None
    if isinstance(last, dict) and last.get("type") == item.get("type") == "thinking" and not last.get("signature"):
        return last
    return None
