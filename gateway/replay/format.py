"""Comparisons and replays as text for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.preview import format_item, format_preview


def format_diff(shown: Mapping[str, Any]) -> str:
    """What differs between two requests; what is the same is not mentioned."""
    if shown["same"]:
        return "No difference."
    lines = [*list_values(shown), *list_items(shown["items"]), *list_names(shown)]
    lines += [f"{one['pointer']}: {one['from']} → {one['to']}" for one in shown["fields"]]
    return "\n".join([*lines, "", shown["messages"]] if shown["messages"] else lines)


def list_values(shown: Mapping[str, Any]) -> Iterator[str]:
    for name in ("snapshot", "upstream", "model", "placement"):
        if shown[name]["from"] != shown[name]["to"]:
            yield f"{name}: {format_pair(shown[name])}"
    tokens = shown["tokens"]
    if any(pair["from"] != pair["to"] for pair in (tokens["total"], *tokens["by_category"].values())):
        parts = tokens["by_category"].items()
        changed = (f"{name} {format_pair(pair)}" for name, pair in parts if pair["from"] != pair["to"])
        yield f"tokens: {format_pair(tokens['total'])} ({', '.join(changed)})"
    if tokens["budget"]["from"] != tokens["budget"]["to"]:
        yield f"budget: {format_pair(tokens['budget'])}"


def list_items(items: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"+ {format_item(one)}" for one in items["added"])
    yield from (f"- {format_item(one)}" for one in items["removed"])
    for one in items["changed"]:
        values = (f"{name} {one['from'][name]} → {one['to'][name]}" for name in one["from"])
        text = ["text"] if "text" in one["fields"] else []
        yield f"~ {one['id']}: {', '.join([*values, *text])}"
    yield from (f"~ {one['id']}: moved from {one['from']} to {one['to']}" for one in items["moved"])


def list_names(shown: Mapping[str, Any]) -> Iterator[str]:
    for name in ("catalogue", "dropped", "tools", "warnings", "degraded"):
        found = shown[name]
        signs = (("+", found["added"]), ("-", found["removed"]), ("~", found.get("changed", ())))
        if words := [f"{sign}{one}" for sign, names in signs for one in names]:
            yield f"{name}: {', '.join(words)}"


def format_pair(pair: Mapping[str, Any]) -> str:
    return f"{pair['from']} → {pair['to']}"


def format_replay(shown: dict[str, Any]) -> str:
    """A replayed request, below what differs from the receipt."""
    receipt = shown["receipt"]
    same = "the same policies" if receipt["same_policies"] else "other policies"
    lines = [f"receipt {receipt['id']}, {same}"]
    if receipt["omitted"]:
        lines.append(f"not in the receipt: {', '.join(receipt['omitted'])}")
    lines += ["same context as then"] if receipt["same_context"] else list_items(receipt["items"])
    return "\n".join([*lines, "", format_preview(shown)])
