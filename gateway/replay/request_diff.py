"""What differs between two requests: their resources, tokens, tools, model and messages."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.control.diff import list_differences
from gateway.replay.prompt_prefix import list_entries
from gateway.replay.resolved_request import ResolvedRequest
from gateway.replay.text_diff import diff_messages

COMPARED = ("name", "type", "kind", "mode", "via", "level", "entity", "version", "tokens", "truncated")
RECORDED = ("mode", "version", "tokens", "truncated")  # what of a receipt's items is compared with a replay
VALUES = ("snapshot", "upstream", "model")

Described = Mapping[str, Any]
Texts = Mapping[str, str]


def compare_requests(before: ResolvedRequest, after: ResolvedRequest) -> dict[str, Any]:
    """All differences, as the API returns them."""
    one, other = before.describe(), after.describe()
    chosen = one["selection"], other["selection"]
    values = {name: make_pair(one[name], other[name]) for name in VALUES}
    values["placement"] = make_pair(before.placement, after.placement)
    found = {
        "items": compare_items(chosen[0]["injected"], chosen[1]["injected"], (before.texts, after.texts)),
        "catalogue": compare_names(list_ids(chosen[0]["catalogue"]), list_ids(chosen[1]["catalogue"])),
        "dropped": compare_names(list_reasons(chosen[0]["dropped"]), list_reasons(chosen[1]["dropped"])),
        "tools": compare_tools(one["request"].get("tools") or (), other["request"].get("tools") or ()),
        "warnings": compare_names(list_messages(one["warnings"]), list_messages(other["warnings"])),
        "degraded": compare_names(one["degraded"], other["degraded"]),
        "fields": list_differences(drop_shown(one["request"]), drop_shown(other["request"])),
        "messages": diff_messages(list_entries(one["request"]), list_entries(other["request"])),
    }
    # The hash of the policies may differ although this request is the same under both.
    same = not any(map(has_content, found.values())) and all(
        pair["from"] == pair["to"] for name, pair in values.items() if name != "snapshot"
    )
    return {"same": same, **values, "tokens": compare_tokens(one["tokens"], other["tokens"]), **found}


def compare_items(
    before: Sequence[Described],
    after: Sequence[Described],
    texts: tuple[Texts, Texts] = ({}, {}),
    fields: Sequence[str] = COMPARED,
) -> dict[str, Any]:
    """Resources that are added, removed, changed or moved."""
    former, current = {one["id"]: one for one in before}, {one["id"]: one for one in after}
    both = [identity for identity in current if identity in former]
    changed = [describe_change(former[identity], current[identity], fields, texts) for identity in both]
    return {
        "added": [one for identity, one in current.items() if identity not in former],
        "removed": [one for identity, one in former.items() if identity not in current],
        "changed": [one for one in changed if one["fields"]],
        "moved": [
            {"id": identity, "from": former[identity]["position"], "to": current[identity]["position"]}
            for identity in find_moved([one for one in former if one in current], both)
        ],
    }


def describe_change(
    before: Described, after: Described, fields: Sequence[str], texts: tuple[Texts, Texts]
) -> dict[str, Any]:
    differing = [name for name in fields if before.get(name) != after.get(name)]
    former, current = ({name: one.get(name) for name in differing} for one in (before, after))
    if texts[0].get(after["id"]) != texts[1].get(after["id"]):
        differing.append("text")  # the messages show how
    return {"id": after["id"], "fields": differing, "from": former, "to": current}


def find_moved(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """The fewest that have to move to turn one order into the other."""
    places = {identity: place for place, identity in enumerate(before)}
    tails: list[int] = []  # of ascending sequences by length, the smallest end of each
    ends: list[int] = []
    for identity in after:
        length = bisect_left(tails, places[identity])
        tails[length : length + 1] = [places[identity]]
        ends.append(length)
    kept, wanted = set(), len(tails) - 1
    for place in range(len(after) - 1, -1, -1):
        if ends[place] == wanted:
            kept.add(after[place])
            wanted -= 1
    return [identity for identity in after if identity not in kept]


def compare_tokens(before: Described, after: Described) -> dict[str, Any]:
    former, current = before["by_category"], after["by_category"]
    totals = {name: make_pair(before[name], after[name]) for name in ("total", "budget", "remaining")}
    categories = dict.fromkeys((*former, *current))
    pairs = {name: make_pair(former.get(name, 0), current.get(name, 0)) for name in categories}
    return {**totals, "by_category": pairs}


def compare_tools(before: Iterable[Any], after: Iterable[Any]) -> dict[str, list[str]]:
    former, current = name_tools(before), name_tools(after)
    changed = [name for name, tool in current.items() if name in former and former[name] != tool]
    return {**compare_names(list(former), list(current)), "changed": changed}


def name_tools(tools: Iterable[Any]) -> dict[str, Any]:
    """Tools by name; what has none is called by its type."""
    named = {}
    for tool in tools:
        about = (tool.get("function") or tool) if isinstance(tool, Mapping) else None
        name = about.get("name") if isinstance(about, Mapping) else None
        named[str(name or (tool.get("type") if isinstance(tool, Mapping) else tool))] = tool
    return named


def compare_names(before: Sequence[str], after: Sequence[str]) -> dict[str, list[str]]:
    """Which names have come and gone."""
    former, current = set(before), set(after)
    return {
        "added": [name for name in after if name not in former],
        "removed": [name for name in before if name not in current],
    }


def make_pair(before: Any, after: Any) -> dict[str, Any]:
    return {"from": before, "to": after}


def has_content(found: Any) -> bool:
    """Whether something differs."""
    return any(found.values()) if isinstance(found, Mapping) else bool(found)


COMPARED_APART = ("messages", "input", "instructions", "system", "tools", "model")


def drop_shown(request: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that are not compared in another way."""
    return {name: value for name, value in request.items() if name not in COMPARED_APART}


def list_ids(items: Iterable[Described]) -> list[str]:
    return [one["id"] for one in items]


def list_reasons(items: Iterable[Described]) -> list[str]:
    return [f"{one['id']} ({one['reason']})" for one in items]


def list_messages(warnings: Iterable[Described]) -> list[str]:
    return [one["message"] for one in warnings]
