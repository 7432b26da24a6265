"""A dry run: the exact outgoing request, and the reason for each part."""

from typing import Any

import msgspec
import orjson

from gateway.domain.candidate import Candidate
from gateway.domain.exchange import Exchange
from gateway.domain.selection import Omission, PlacedResource, Selection
from gateway.pipeline import Pipeline, PreparedRequest


async def preview_request(pipeline: Pipeline, exchange: Exchange, body: bytes) -> dict[str, Any]:
    """What would be sent for `body`, as CONTRACT §8 describes it; nothing is sent."""
    prepared = await pipeline.prepare(exchange, body)
    injection, selection = prepared.injection, prepared.injection.selection
    placed = (*selection.stable, *selection.volatile)
    return {
        "snapshot": exchange.snapshot.hash[:12],
        "upstream": prepared.upstreams[0].name,
        "model": prepared.model,
        "request": msgspec.json.decode(prepared.body),
        "block": "\n\n".join(block for block in (injection.stable, injection.volatile) if block),
        "tools": [msgspec.json.decode(schema) for schema in injection.tools.schemas] if injection.tools else [],
        "selection": {
            "injected": [describe_placed(selection, one, position) for position, one in enumerate(placed)],
            "catalogue": [describe_omission(selection, left) for left in selection.catalogue],
            "dropped": [describe_omission(selection, left) for left in selection.dropped],
        },
        "sources": [
            {"level": source.level, "entity": source.entity, "context": source.context} for source in selection.sources
        ],
        "tokens": summarize_tokens(prepared, selection),
        "warnings": [
            {"code": warned.code, "category": warned.category, "message": warned.message}
            for warned in selection.warnings
        ],
        "degraded": sorted(exchange.degraded),
    }


def summarize_tokens(prepared: PreparedRequest, selection: Selection) -> dict[str, Any]:
    """What the injection costs; the catalogue and the tools are not charged to the budget."""
    categories = {
        "always": sum(placed.tokens for placed in selection.stable),
        "named": sum(placed.tokens for placed in selection.volatile),
    }
    total, spent = prepared.injection.tokens, sum(categories.values())
    return {
        "total": total,
        "budget": selection.budget,
        "remaining": max(0, selection.budget - spent),
        "by_category": {**categories, "frame": total - spent},
    }


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


def format_preview(shown: dict[str, Any]) -> str:
    """A preview as text for people."""
    chosen = shown["selection"]
    lines = [f"model {shown['model']} → upstream {shown['upstream']}, snapshot {shown['snapshot']}", ""]
    for title, key in (("Injected", "injected"), ("Offered through the tools", "catalogue"), ("Dropped", "dropped")):
        lines += [f"{title}:", *(f"  {format_item(one)}" for one in chosen[key])] if chosen[key] else []
    spent = shown["tokens"]
    lines.append(f"Tokens: {spent['total']} in all; {spent['remaining']} of the budget of {spent['budget']} remain.")
    lines += [f"Warning: {warned['message']}" for warned in shown["warnings"]]
    if shown["degraded"]:
        lines.append(f"Degraded: {', '.join(shown['degraded'])}")
    outgoing = orjson.dumps(shown["request"], option=orjson.OPT_INDENT_2).decode()
    return "\n".join([*lines, "", "Outgoing request:", outgoing])


def format_item(one: dict[str, Any]) -> str:
    cost = f", {one['tokens']} tokens" if one["tokens"] is not None else ""
    cut = ", truncated" if one["truncated"] else ""
    reason = f" ({one['reason']})" if one["reason"] else ""
    return f"{one['id']} [{one['mode']}{cost}{cut}]{reason}: {one['why']}"
