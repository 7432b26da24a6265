"""A dry run: the exact outgoing request, and the reason for each part."""

from typing import Any

import msgspec
import orjson

from gateway.domain.agent import Placement
from gateway.domain.collector import Category
from gateway.domain.exchange import Exchange
from gateway.domain.scope import Scope
from gateway.domain.selection import Notice, Selection
from gateway.domain.summary import SUMMARIZE
from gateway.domain.upstream import UpstreamRequest
from gateway.injection.blocks import SECTIONS, is_found
from gateway.injection.compose import choose_target
from gateway.pipeline import Pipeline, PreparedRequest
from gateway.receipts.items import (
    describe_collectors,
    describe_dropped,
    describe_injected,
    describe_items,
    describe_omission,
    describe_sources,
    describe_warnings,
    summarize_tokens,
)
from gateway.selection.requirements import find_shortfalls, is_truncated
from gateway.upstreams.translation.translated import translate_body


async def preview_request(pipeline: Pipeline, exchange: Exchange, body: bytes) -> dict[str, Any]:
    """What would be sent for `body`, as CONTRACT §8 describes it; nothing is sent."""
    prepared = await pipeline.prepare(exchange, body)
    return describe_request(exchange, prepared, list_summary_notices(pipeline, exchange, prepared))


def describe_request(exchange: Exchange, prepared: PreparedRequest, notices: tuple[Notice, ...] = ()) -> dict[str, Any]:
    """A request that was not sent, as CONTRACT §8 describes it."""
    injection = prepared.injection
    return {
        "snapshot": exchange.snapshot.hash[:12],
        "upstream": prepared.upstreams[0].name,
        "model": prepared.model,
        "request": msgspec.json.decode(write_for_upstream(prepared)),
        "block": injection.block,
        "tools": [msgspec.json.decode(schema) for schema in injection.tools.schemas] if injection.tools else [],
        "selection": {
            "injected": describe_injected(injection.selection),
            "items": describe_items(injection.selection),
            "catalogue": [describe_omission(injection.selection, left) for left in injection.selection.catalogue],
            "dropped": describe_dropped(injection.selection),
        },
        "sources": describe_sources(injection.selection),
        "focus": prepared.scope.node.path if prepared.scope.node is not None else None,
        "sections": describe_sections(injection.selection),
        "recipe": describe_recipe(prepared.scope, injection.selection),
        "validation": describe_validation(prepared.scope, injection.selection),
        "collectors": describe_collectors(injection.selection),
        "tokens": summarize_tokens(injection),
        "suggested_content": exchange.suggested,
        "warnings": describe_warnings((*injection.selection.warnings, *notices)),
        "degraded": sorted(exchange.degraded),
    }


def write_for_upstream(prepared: PreparedRequest) -> bytes:
    """The body as the first upstream gets it: in its own dialect."""
    dialect, can = prepared.dialect, prepared.upstreams[0].capabilities
    return translate_body(UpstreamRequest(dialect.upstream_path, prepared.body, dialect=dialect.name), can)


def list_summary_notices(pipeline: Pipeline, exchange: Exchange, prepared: PreparedRequest) -> tuple[Notice, ...]:
    """A warning for every text that should be summarized and is cut, as things stand now."""
    source, selection = pipeline.builder.summaries, prepared.injection.selection
    notices = []
    for placed in (*selection.stable, *selection.volatile):
        resource = placed.candidate.resource
        if resource.truncate != SUMMARIZE or not placed.truncated or placed.summarized:
            continue
        if source is None:
            why = "no model is configured under `summaries`"
        else:
            failure = source.find_failure(exchange.principal.workspace, resource.text or "")
            why = f"the last attempt failed ({failure})" if failure else "the summary is not there yet"
        message = f"{resource.id} is not summarized, its best sentences are used: {why}."
        notices.append(Notice("summary", placed.category, message))
    return tuple(notices)


def describe_sections(selection: Selection) -> list[dict[str, Any]]:
    """The sections of what collectors found, in their order; one without items says so in the request."""
    sections = []
    for category, title in SECTIONS.items():
        items = [one for one in selection.volatile if one.category is category and is_found(one.candidate.resource)]
        costs = [one.tokens for one in selection.costs if one.category is category]
        if items or any(note.category is category for note in selection.notes):
            ids = [one.candidate.resource.id for one in items]
            sections.append(
                {
                    "category": category,
                    "title": title,
                    "items": ids,
                    "tokens": sum(costs, sum(one.tokens for one in items)),
                }
            )
    return sections


def describe_recipe(scope: Scope, selection: Selection) -> dict[str, Any] | None:
    """What a recipe came to: its items in their order, what they cost, and whether anything of them is missing."""
    if scope.recipe is None:
        return None
    placed = [one for one in selection.volatile if one.category is Category.TASK]
    items = [
        {"id": one.candidate.resource.id, "layer": one.candidate.resource.data.layer, "tokens": one.tokens}
        for one in placed
    ]
    return {
        "task": scope.recipe.alias,
        "items": items,
        "tokens": selection.tokens.get(Category.TASK, 0),
        "truncated": is_truncated(Category.TASK, selection),
    }


def describe_validation(scope: Scope, selection: Selection) -> dict[str, Any]:
    """Whether a context has all that its recipe, its agent and its resources require."""
    missing = [{"code": one.code, "message": one.message} for one in find_shortfalls(scope, selection)]
    return {"valid": not missing, "missing": missing}


def find_placement(pipeline: Pipeline, prepared: PreparedRequest) -> Placement:
    """Where the volatile block went: not every upstream takes system messages in the middle."""
    return choose_target(prepared.model, prepared.scope, prepared.can, pipeline.defaults.placement).placement


def format_preview(shown: dict[str, Any]) -> str:
    """A preview as text for people."""
    chosen = shown["selection"]
    lines = [f"model {shown['model']} → upstream {shown['upstream']}, snapshot {shown['snapshot']}", ""]
    for title, key in (("Injected", "injected"), ("Offered through the tools", "catalogue"), ("Dropped", "dropped")):
        lines += [f"{title}:", *(f"  {format_item(one)}" for one in chosen[key])] if chosen[key] else []
    spent = shown["tokens"]
    lines.append(f"Tokens: {spent['total']} in all; {spent['remaining']} of the budget of {spent['budget']} remain.")
    lines += [f"Warning: {warned['message']}" for warned in shown["warnings"]]
    lines += [f"Missing: {missed['message']}" for missed in shown["validation"]["missing"]]
    if shown["suggested_content"]:
        lines.append(f"Suggested content: {shown['suggested_content']}")
    if shown["degraded"]:
        lines.append(f"Degraded: {', '.join(shown['degraded'])}")
    outgoing = orjson.dumps(shown["request"], option=orjson.OPT_INDENT_2).decode()
    return "\n".join([*lines, "", "Outgoing request:", outgoing])


def format_item(one: dict[str, Any]) -> str:
    cost = f", {one['tokens']} tokens" if one["tokens"] is not None else ""
    cut = ", summarized" if one.get("summarized") else ", truncated" if one["truncated"] else ""
    reason = f" ({one['reason']})" if one["reason"] else ""
    return f"{one['id']} [{one['mode']}{cost}{cut}]{reason}: {one['why']}"
