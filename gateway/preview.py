"""A dry run: the exact outgoing request, and the reason for each part."""

from typing import Any

import msgspec
import orjson

from gateway.domain.exchange import Exchange
from gateway.pipeline import Pipeline
from gateway.receipts.items import (
    describe_collectors,
    describe_injected,
    describe_omission,
    describe_sources,
    describe_warnings,
    summarize_tokens,
)


async def preview_request(pipeline: Pipeline, exchange: Exchange, body: bytes) -> dict[str, Any]:
    """What would be sent for `body`, as CONTRACT §8 describes it; nothing is sent."""
    prepared = await pipeline.prepare(exchange, body)
    injection = prepared.injection
    return {
        "snapshot": exchange.snapshot.hash[:12],
        "upstream": prepared.upstreams[0].name,
        "model": prepared.model,
        "request": msgspec.json.decode(prepared.body),
        "block": "\n\n".join(block for block in (injection.stable, injection.volatile) if block),
        "tools": [msgspec.json.decode(schema) for schema in injection.tools.schemas] if injection.tools else [],
        "selection": {
            "injected": describe_injected(injection.selection),
            "catalogue": [describe_omission(injection.selection, left) for left in injection.selection.catalogue],
            "dropped": [describe_omission(injection.selection, left) for left in injection.selection.dropped],
        },
        "sources": describe_sources(injection.selection),
        "focus": prepared.scope.node.path if prepared.scope.node is not None else None,
        "collectors": describe_collectors(injection.selection),
        "tokens": summarize_tokens(injection),
        "warnings": describe_warnings(injection.selection),
        "degraded": sorted(exchange.degraded),
    }


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
