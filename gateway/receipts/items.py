"""What was chosen for a request and why, as previews and receipts describe it."""

from typing import Any

from gateway.domain.candidate import Candidate
from gateway.domain.injection import Injection
from gateway.domain.selection import Omission, PlacedResource, Selection

MAX_NAME = 512  # characters of a name that the caller chose


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


def describe_items(selection: Selection) -> list[dict[str, Any]]:
    """The texts that came with the request itself, in their order: what they are called and how long they are."""
    return [{"name": one.name[:MAX_NAME], "characters": len(one.text)} for one in selection.items]


def describe_sources(selection: Selection) -> list[dict[str, Any]]:
    return [{"level": one.level, "entity": one.entity, "context": one.context} for one in selection.sources]


def describe_warnings(selection: Selection) -> list[dict[str, Any]]:
    return [{"code": one.code, "category": one.category, "message": one.message} for one in selection.warnings]


def summarize_tokens(injection: Injection) -> dict[str, Any]:
    """What the injection costs; the catalogue and the tools are not charged to the budget."""
    selection = injection.selection
    categories = {
        "always": sum(placed.tokens for placed in selection.stable),
        "named": sum(placed.tokens for placed in selection.volatile),
    }
    total, spent = injection.tokens, sum(categories.values())
    return {
        "total": total,
        "budget": selection.budget,
        "remaining": max(0, selection.budget - spent),
        "by_category": {**categories, "frame": total - spent},
    }
