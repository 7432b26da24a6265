"""`gateway stats`: how context is used, from the configured store or from a running gateway."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.commands.common import (
    OK,
    Subparsers,
    add_common_options,
    add_workspace_option,
    format_columns,
    load_command_settings,
    parse_moment,
    print_json,
    run_async,
)

if TYPE_CHECKING:
    from gateway.commands.stored_stats import StatsQuestion

USED = ("injected", "picked", "pinned", "fetched", "missed", "truncated", "over_budget", "tokens", "cost")
ASKED = ("requests", "injected", "picked", "fetched", "context_tokens", "prompt_tokens", "cached_share", "cost")
COLUMNS = {
    "summary": ("start", *ASKED, "mean_seconds"),
    "resources": ("name", *USED, "measured", "shown_share", "overlap", "last_injected", "last_fetched"),
    "contexts": ("name", "applied", "injected", "fetched", "tokens", "cost", "last_injected", "last_fetched"),
    "agents": ("name", *ASKED, "mean_seconds"),
    "models": ("name", *ASKED, "mean_seconds"),
    "quality": (
        *("start", "requests", "picked_share", "measured_picks", "shown_share", "missed_share"),
        *("over_budget_share", "degraded_share", "degraded_semantic_share"),
    ),
    "cache": ("cache", "name", "requests", "prompt_tokens", "cached_tokens", "cached_share"),
    "suggestions": ("code", "resource", "reason", "change"),
}
SORTS = ("injected", "fetched", "tokens", "cost", "missed", "over_budget", "truncated", "shown")


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("stats", help="show how context is used, what it costs and what could be better")
    views = ", ".join(COLUMNS)
    parser.add_argument("view", nargs="?", choices=tuple(COLUMNS), default="summary", metavar="VIEW", help=views)
    add_common_options(parser)
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")
    add_workspace_option(parser, "workspace, in the configured store")
    parser.add_argument("--from", dest="begin", type=parse_moment, metavar="WHEN", help="default: 30 days ago")
    parser.add_argument("--to", dest="end", type=parse_moment, metavar="WHEN", help="default: now")
    parser.add_argument("--bucket", choices=("day", "hour"), default="day", help="of summary and quality")
    parser.add_argument("--agent", help="only this agent; for summary, quality and resources")
    parser.add_argument("--model", help="only this model; for summary and quality")
    parser.add_argument("--context", help="only resources of this context")
    parser.add_argument("--sort", choices=SORTS, default="injected", help="what resources are sorted by")
    parser.add_argument("--take", type=int, default=50, metavar="N", help="how many rows at most; default: 50")
    parser.add_argument("--url", help="ask a running gateway instead, such as http://127.0.0.1:8080")
    parser.add_argument("--key-file", type=Path, help="with --url: a file that holds the key of an editor")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    question = build_question(arguments)
    if arguments.url is not None:
        from gateway.commands.remote_stats import ask_gateway

        shown = ask_gateway(arguments.url, arguments.key_file, question)
    else:
        from gateway.commands.stored_stats import read_stats

        shown = run_async(read_stats(load_command_settings(arguments), arguments.workspace, question))
    print_stats(question.view, shown, arguments)
    return OK


def build_question(arguments: argparse.Namespace) -> StatsQuestion:
    from gateway.commands.stored_stats import StatsQuestion

    begin, end = (None if time is None else time.timestamp() for time in (arguments.begin, arguments.end))
    filters = {name: getattr(arguments, name) for name in ("agent", "model", "context")}
    return StatsQuestion(
        arguments.view, begin, end, arguments.bucket, filters, arguments.sort, max(1, min(arguments.take, 1000))
    )


def print_stats(view: str, shown: dict[str, Any], arguments: argparse.Namespace) -> None:
    if arguments.json:
        return print_json(shown, indent=True)
    rows = list_rows(view, shown)
    if arguments.csv:
        return write_csv(COLUMNS[view], rows)
    print(format_columns(COLUMNS[view], rows))


def list_rows(view: str, shown: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """A report as rows of a table."""
    match view:
        case "summary" | "quality":
            return [*shown["points"], {"start": "total", **shown["totals"]}]
        case "cache":
            lookups = shown["query_embeddings"]
            asked = lookups["hits"] + lookups["misses"]
            groups = [("all", [shown["prompt"]["totals"]])]
            groups += [(name[:-1], shown["prompt"][name]) for name in ("placements", "agents", "models")]
            rows = [{"cache": f"prompt by {what}", **one} for what, found in groups for one in found]
            own = {"requests": asked, "cached_share": lookups["hit_share"]}
            return [*rows, {"cache": "query embeddings", **own}]
        case "suggestions":
            return [one | {"change": format_change(one["change"])} for one in shown["items"]]
        case _:
            items: list[dict[str, Any]] = shown["items"]
            return items


def format_change(change: dict[str, Any]) -> str:
    """A change in one line."""
    fields = ", ".join(f"{name}={value}" for name, value in change["merge"].items())
    wanted = f"new {', '.join(change['asks'])}" if change["asks"] else fields
    return " ".join(part for part in (change["method"], change["path"], wanted) if part)


def write_csv(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([escape_cell(row.get(name)) for name in columns])


def escape_cell(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula: names come from clients."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
