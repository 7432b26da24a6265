"""`gateway receipts`: lists, shows, exports and deletes receipts in the configured store."""

from __future__ import annotations

import argparse
import sys
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
from gateway.commands.replay import add_replay_parser

if TYPE_CHECKING:
    from gateway.domain.receipt import ReceiptFilter

STATUSES = ("started", "ok", "error", "aborted", "upstream_truncated", "loop_limit")
COLUMNS = ("id", "at", "status", "agent", "session", "content", "model", "injected", "context_tokens", "cost")
FIELDS = (
    *("id", "at", "status", "http_status", "error", "seconds", "principal", "key", "user", "session", "agent"),
    *("profile", "prompt", "content", "suggested_content", "task", "asked_model", "model", "upstream", "snapshot"),
    *("injected", "context_tokens", "turn_count", "tools_run", "cached_tokens", "cost", "degraded"),
)


def add_parser(subparsers: Subparsers) -> None:
    receipts = subparsers.add_parser("receipts", help="list, show, replay, export and delete stored receipts")
    actions = receipts.add_subparsers(required=True, metavar="ACTION")
    list_ = actions.add_parser("list", help="list receipts, newest first")
    list_.add_argument("--take", type=int, default=20, metavar="N", help="how many at most; default: 20")
    list_.set_defaults(run=run_list)
    show = actions.add_parser("show", help="show a receipt; its id is in the header x-context-receipt")
    show.add_argument("id", metavar="ID")
    show.set_defaults(run=run_show)
    export = actions.add_parser("export", help="print receipts as JSON lines, newest first")
    export.set_defaults(run=run_export)
    delete = actions.add_parser("delete", help="delete a receipt")
    delete.add_argument("id", metavar="ID")
    delete.set_defaults(run=run_delete)
    add_replay_parser(actions)
    for parser in (list_, export):
        add_filters(parser)
    for parser in (list_, show, export, delete):
        add_workspace_option(parser, "workspace of the receipts")
        add_common_options(parser, policies=False, json=parser is not export)


def add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", help="only this session")
    parser.add_argument("--agent", help="only this agent")
    parser.add_argument("--content", metavar="PATH", help="only this content node")
    parser.add_argument("--resource", metavar="ID", help="only exchanges that used this resource")
    parser.add_argument("--status", choices=STATUSES, help="only this status")
    parser.add_argument("--from", dest="begin", type=parse_moment, metavar="WHEN", help="only from this time on")
    parser.add_argument("--to", dest="end", type=parse_moment, metavar="WHEN", help="only before this time")


def build_filter(arguments: argparse.Namespace) -> ReceiptFilter:
    from gateway.domain.receipt import ReceiptFilter

    begin, end = (None if time is None else time.timestamp() for time in (arguments.begin, arguments.end))
    names = (arguments.session, arguments.agent, arguments.content, arguments.resource, arguments.status)
    return ReceiptFilter(*names, begin, end)


def run_list(arguments: argparse.Namespace) -> int:
    from gateway.commands.stored_receipts import list_receipts

    settings, criteria = load_command_settings(arguments), build_filter(arguments)
    found = run_async(list_receipts(settings, arguments.workspace, criteria, max(0, arguments.take)))
    if arguments.json:
        print_json(found)
    else:
        print(format_columns(COLUMNS, found))
    return OK


def run_show(arguments: argparse.Namespace) -> int:
    from gateway.commands.stored_receipts import show_receipt

    shown = run_async(show_receipt(load_command_settings(arguments), arguments.workspace, arguments.id))
    if arguments.json:
        print_json(shown, indent=True)
    else:
        print(format_receipt(shown))
    return OK


def run_export(arguments: argparse.Namespace) -> int:
    from gateway.commands.stored_receipts import export_receipts

    settings, criteria = load_command_settings(arguments), build_filter(arguments)
    run_async(export_receipts(settings, arguments.workspace, criteria, sys.stdout.buffer.write))
    sys.stdout.buffer.flush()
    return OK


def run_delete(arguments: argparse.Namespace) -> int:
    from gateway.commands.stored_receipts import delete_receipt

    run_async(delete_receipt(load_command_settings(arguments), arguments.workspace, arguments.id))
    if arguments.json:
        print_json({"deleted": arguments.id})
    else:
        print(f"{arguments.id} is deleted.")
    return OK


def format_receipt(shown: dict[str, Any]) -> str:
    """A receipt as text for people."""
    from gateway.preview import format_item

    lines = [f"{name:15} {shown[name]}" for name in FIELDS if shown.get(name) not in (None, [], "")]
    chosen = shown.get("selection", {})
    for title, key in (("Injected", "injected"), ("Dropped", "dropped")):
        lines += ["", f"{title}:", *(f"  {format_item(one)}" for one in chosen[key])] if chosen.get(key) else []
    if chosen.get("catalogue"):
        lines += ["", f"Offered through the tools: {', '.join(chosen['catalogue'])}"]
    if shown.get("tools"):
        tools = (f"  {one['name']} {one['resource'] or '-'}: {one['characters']} characters" for one in shown["tools"])
        lines += ["", "Tools run:", *tools]
    turns = (
        f"  {number}. {turn['upstream']}: HTTP {turn['status']}, first byte after {turn['first_byte_ms']:g} ms"
        for number, turn in enumerate(shown.get("turns", ()), 1)
    )
    lines += ["", "Turns:", *turns] if shown.get("turns") else []
    lines += ["", "Timings: " + ", ".join(f"{name} {value}" for name, value in shown.get("timings", {}).items())]
    return "\n".join(lines)
