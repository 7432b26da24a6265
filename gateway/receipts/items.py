"""What was chosen for a request and why, as previews and receipts describe it."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from gateway.domain.candidate import Candidate
from gateway.domain.collector import FoundItem
from gateway.domain.injection import Injection
from gateway.domain.resource import Resource, ResourceKind
from gateway.domain.selection import Notice, Omission, PlacedResource, Selection
from gateway.domain.tool import CallableTool

MAX_TOOL_NAMES, MAX_TOOL_NAME = 512, 64  # of a client's tools, and characters of each

MAX_NAME = 512  # characters of a name that the caller chose


def describe_injected(selection: Selection) -> list[dict[str, Any]]:
    """The resources whose text was placed, in their order, then the tools that were registered."""
    placed = (*selection.stable, *selection.volatile, *selection.tools)
    return [describe_placed(selection, one, position) for position, one in enumerate(placed)]


def describe_dropped(selection: Selection) -> list[dict[str, Any]]:
    """What was left out, and the tools that a search looked at and did not find relevant."""
    looked_at = (one for one in selection.waiting if one.candidate.score is not None or one.reason == "over_budget")
    return [describe_omission(selection, left) for left in (*selection.dropped, *looked_at)]


def describe_omitted_tools(names: tuple[str, ...]) -> dict[str, Any]:
    """The client's own tools that were not sent; a client may name many, and name them anything."""
    return {"omitted": len(names), "names": [name[:MAX_TOOL_NAME] for name in names[:MAX_TOOL_NAMES]]}


def name_server(resource: Resource) -> str | None:
    """The resource of the server that a tool belongs to."""
    return resource.data.server or None if isinstance(resource.data, CallableTool) else None


def describe_candidate(candidate: Candidate) -> dict[str, Any]:
    resource = candidate.resource
    described = {
        "id": resource.id,
        "name": resource.name,
        "type": resource.type,
        "kind": resource.kind,
        "mode": resource.mode,
        "via": candidate.via,
        "level": candidate.level,
        "entity": candidate.entity,
        "context": resource.context,
        "version": resource.version,
        "score": candidate.score,
        "tokens": None,
        "position": None,
        "truncated": False,
        "reason": None,
        "why": candidate.why,
    }
    if isinstance(resource.data, FoundItem):
        return described | describe_origin(resource.data)
    return described | {"server": name_server(resource)} if resource.kind is ResourceKind.TOOL else described


def describe_origin(item: FoundItem) -> dict[str, Any]:
    """Where something that a collector found stands, when it was changed, and where a passage is from."""
    modified = None if item.modified is None else datetime.fromtimestamp(item.modified, UTC).isoformat()
    source = {"source": item.source} if item.source else {}
    return {"breadcrumb": list(item.breadcrumb), "modified": modified, **source}


def describe_placed(selection: Selection, placed: PlacedResource, position: int) -> dict[str, Any]:
    data = placed.candidate.resource.data
    described = describe_candidate(selection.attribute(placed.candidate)) | {
        "tokens": placed.tokens,
        "position": position,
        "truncated": placed.truncated,
    }
    described |= {"summarized": True} if placed.summarized else {}
    return described | {"parts": describe_parts(data)} if isinstance(data, FoundItem) and data.parts else described


def describe_parts(item: FoundItem) -> list[dict[str, Any]]:
    """What a text of several things is about, such as entities."""
    return [{"id": one.id, "type": one.type, "name": one.title, "score": one.score} for one in item.parts]


def describe_omission(selection: Selection, left: Omission) -> dict[str, Any]:
    return describe_candidate(selection.attribute(left.candidate)) | {"reason": left.reason}


def describe_items(selection: Selection) -> list[dict[str, Any]]:
    """The texts that came with the request itself, in their order: what they are called and how long they are."""
    return [{"name": one.name[:MAX_NAME], "characters": len(one.text)} for one in selection.items]


def describe_sources(selection: Selection) -> list[dict[str, Any]]:
    return [{"level": one.level, "entity": one.entity, "context": one.context} for one in selection.sources]


def describe_warnings(warnings: Iterable[Notice]) -> list[dict[str, Any]]:
    return [{"code": one.code, "category": one.category, "message": one.message} for one in warnings]


def summarize_tokens(injection: Injection) -> dict[str, Any]:
    """What is added to the request, by category; the total is what `x-context-tokens` says."""
    selection = injection.selection
    total = injection.tokens
    return {
        "total": total,
        "budget": selection.budget,
        "remaining": max(0, selection.budget - total),
        "by_category": {"always": 0, **selection.tokens},
    }


def describe_collectors(selection: Selection) -> list[dict[str, Any]]:
    """The collectors that ran: what they looked at and how much of it is in the request."""
    return [
        {
            "name": one.name,
            "category": one.category,
            "considered": one.considered,
            "included": one.included,
            "failure": one.failure,
            "total_available": one.total_available,
            "truncated": one.truncated,
            "counts": dict(one.counts),
        }
        for one in selection.collectors
    ]
