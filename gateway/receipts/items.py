"""What was chosen for a request and why, as previews and receipts describe it."""

from typing import Any

from gateway.domain.candidate import Candidate
from gateway.domain.injection import Injection
from gateway.domain.selection import Omission, PlacedResource, Selection


def describe_injected(selection: Selection) -> list[dict[str, Any]]:
    """The resources whose text was placed, in their order."""
    placed = (*selection.stable, *selection.volatile)
    return [describe_placed(selection, one, position) for position, one in enumerate(placed)]


def describe_candidate(candidate: Candidate) -> dict[str, Any]:
    resource = candidate.resource
    return {
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


def describe_placed(selection: Selection, placed: PlacedResource, position: int) -> dict[str, Any]:
    return describe_candidate(selection.attribute(placed.candidate)) | {
        "tokens": placed.tokens,
        "position": position,
        "truncated": placed.truncated,
    }


def describe_omission(selection: Selection, left: Omission) -> dict[str, Any]:
    return describe_candidate(selection.attribute(left.candidate)) | {"reason": left.reason}


def describe_sources(selection: Selection) -> list[dict[str, Any]]:
    return [{"level": one.level, "entity": one.entity, "context": one.context} for one in selection.sources]


def describe_warnings(selection: Selection) -> list[dict[str, Any]]:
    return [{"code": one.code, "category": one.category, "message": one.message} for one in selection.warnings]


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
