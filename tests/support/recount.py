"""The figures of a workspace once more, receipt by receipt from what the API shows of them: slow, and plain."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

STATUSES = ("ok", "error", "aborted", "upstream_truncated", "loop_limit")


def recount(receipts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Requests and resources as `GET /stats` and `GET /stats/resources` should show them."""
    totals: Counter[str] = Counter()
    used: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seen: defaultdict[tuple[str, str], set[Any]] = defaultdict(set)
    for receipt in receipts:
        if receipt["status"] == "started":
            continue
        session = _find_session(receipt)
        _count_request(receipt, totals)
        _count_resources(receipt, used)
        for what, name in _list_uses(receipt):
            if session is not None:
                seen[what, name].add(session)
    sessions = {place: len(names) for place, names in seen.items()}
    return {"totals": dict(totals), "resources": {name: dict(one) for name, one in used.items()}, "sessions": sessions}


def _count_request(receipt: dict[str, Any], totals: Counter[str]) -> None:
    selection = receipt.get("selection") or {}
    fetched = _find_fetched(receipt)
    usage = receipt["usage"] or {}
    totals["requests"] += 1
    totals[receipt["status"]] += 1
    totals["degraded"] += bool(receipt["degraded"])
    totals["injected"] += bool(selection.get("injected"))
    totals["picked"] += any(one["via"] in ("semantic", "expansion") for one in selection.get("injected", ()))
    totals["fetched"] += bool(fetched)
    totals["missed"] += any(one["left_out"] == "below_threshold" for one in fetched.values())
    totals["over_budget"] += bool(selection.get("over_budget"))
    totals["context_tokens"] += receipt["context_tokens"]
    totals["turns"] += receipt["turn_count"]
    totals["tools_run"] += receipt["tools_run"]
    totals["with_usage"] += receipt["usage"] is not None
    totals["prompt_tokens"] += usage.get("prompt_tokens", 0)
    totals["completion_tokens"] += usage.get("completion_tokens", 0)
    totals["cached_tokens"] += receipt["cached_tokens"]
    totals["priced"] += receipt["cost"] is not None


def _count_resources(receipt: dict[str, Any], used: defaultdict[str, Counter[str]]) -> None:
    selection = receipt.get("selection") or {}
    placed = selection.get("injected", [])
    for context in {one["context"] for one in receipt.get("sources", [])}:
        used[context]["applied"] += 1
    for context in {one["context"] for one in placed}:
        used[context]["injected"] += 1
    for one in placed:
        own = used[one["id"]]
        own["injected"] += 1
        own["tokens"] += one["tokens"]
        used[one["context"]]["tokens"] += one["tokens"]
        own["picked"] += one["via"] in ("semantic", "expansion")
        own["pinned"] += one["via"] in ("session", "include")
        own["retained"] += one["via"] == "retained"
        own["truncated"] += one["truncated"]
    for id in set(selection.get("over_budget", [])) - {one["id"] for one in placed}:
        used[id]["over_budget"] += 1
    for id, tool in _find_fetched(receipt).items():
        used[id]["fetched"] += 1
        used[id]["fetched_characters"] += tool["characters"]
        used[id]["missed"] += tool["left_out"] == "below_threshold"
    for context in {id.split("/")[0] for id in _find_fetched(receipt)}:
        used[context]["fetched"] += 1
    for one in receipt.get("overlap", []):
        used[one["id"]]["measured"] += 1
        used[one["id"]]["shown"] += one["shown"] >= min(2, one["phrases"])


def _list_uses(receipt: dict[str, Any]) -> Iterable[tuple[str, str]]:
    placed = (receipt.get("selection") or {}).get("injected", [])
    yield "requests", ""
    yield from (("applied", one["context"]) for one in receipt.get("sources", []))
    yield from (("injected", name) for one in placed for name in (one["id"], one["context"]))
    yield from (("fetched", name) for id in _find_fetched(receipt) for name in (id, id.split("/")[0]))


def _find_fetched(receipt: dict[str, Any]) -> dict[str, Any]:
    tools = receipt.get("tools", [])
    return {one["resource"]: one for one in tools if one["resource"] is not None and not one["failed"]}


def _find_session(receipt: dict[str, Any]) -> Any:
    if receipt["session"] is None:
        return None
    return receipt["session"], receipt["key"] or receipt["principal"], receipt["user"]


def compare(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """What differs between the counters of a reply and those that were counted here; those not counted here are 0."""
    return [
        f"{name}: {found[name]} instead of {expected.get(name, 0)}"
        for name in found
        if type(found[name]) is int and found[name] != expected.get(name, 0)
    ]


def check(summary: dict[str, Any], resources: Iterable[dict[str, Any]], expected: dict[str, Any]) -> None:
    """Assert that the totals of `/stats`, and the items of `/stats/resources` and `/stats/contexts`, are right."""
    totals = summary["totals"]
    differences = compare({**totals, **totals["statuses"]}, expected["totals"])
    assert not differences, differences
    assert totals["sessions"]["count"] == expected["sessions"].get(("requests", ""), 0)
    items = {one["name"]: one for one in resources}
    wanted = {name for name, one in expected["resources"].items() if any(one.values())}
    assert set(items) == wanted
    for name, item in items.items():
        differences = compare(item, expected["resources"][name])
        assert not differences, f"{name}: {differences}"
        for what, count in item["sessions"].items():
            assert count["count"] == expected["sessions"].get((what, name), 0), (name, what)
