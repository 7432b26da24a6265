"""`gateway cache-report`: how much of each prompt of a conversation a provider's prompt cache can reuse."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.commands.common import (
    OK,
    Subparsers,
    add_common_options,
    add_workspace_option,
    build_operator,
    format_columns,
    load_command_settings,
    print_json,
    run_async,
)
from gateway.commands.indexing import ProgressBar, extend_search_deadline, try_run_indexer
from gateway.commands.resolve import HEADERS, build_headers
from gateway.errors import InvalidRequest

if TYPE_CHECKING:
    from gateway.settings import Settings

COLUMNS = ("placement", "sticky", "prompt tokens", "in common", "of the prompt", "of what could be cached")


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("cache-report", help="show how much of a conversation's prompts can be cached")
    add_common_options(parser)
    parser.add_argument("--model", help="model that the requests name")
    add_workspace_option(parser, "workspace of the policies")
    for name in HEADERS:
        if name != "session":
            parser.add_argument(f"--{name}", help=f"value of the header x-context-{name}")
    parser.add_argument("--session", metavar="ID", help="replay the receipts of this session in place of a file")
    parser.add_argument(
        "conversation", type=Path, nargs="?", metavar="FILE", help="messages or requests, as JSON or JSON lines"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if (arguments.conversation is None) == (arguments.session is None):
        raise InvalidRequest("Name either a file or, with --session, a session.")
    report = run_async(build_report(load_command_settings(arguments), arguments))
    if arguments.json:
        print_json(report, indent=True)
    else:
        print(format_report(report))
    return OK


async def build_report(settings: Settings, arguments: argparse.Namespace) -> dict[str, Any]:
    from gateway.app import Gateway
    from gateway.replay.cache_report import ConversationReplay

    requests = await load_requests(settings, arguments)
    if arguments.model:
        requests = [{**request, "model": arguments.model} for request in requests]
    arguments.session = None  # the replay has a session of its own
    gateway = await Gateway.open(extend_search_deadline(settings))
    try:
        operator = build_operator(arguments.workspace)
        snapshot = gateway.policies.get_snapshot(arguments.workspace)
        async with try_run_indexer(gateway, ProgressBar(sys.stderr)):
            replay = ConversationReplay(gateway.pipeline, operator, snapshot, tuple(build_headers(arguments)))
            return {"requests": len(requests), "variants": await replay.report(requests)}
    finally:
        await gateway.close()


async def load_requests(settings: Settings, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from gateway.replay.conversations import read_conversation, read_receipts

    if arguments.conversation is not None:
        return read_conversation(arguments.conversation)
    from gateway.commands.stored_receipts import read_session

    receipts = await read_session(settings, arguments.workspace, arguments.session)
    if arguments.agent is None and receipts:
        arguments.agent = receipts[-1]["agent"]
    return read_receipts(receipts)


def format_report(report: dict[str, Any]) -> str:
    """The report as a table."""
    rows = [
        {
            "placement": format_placement(one["placement"], one["effective"]),
            "sticky": "yes" if one["sticky"] else "no",
            "prompt tokens": one["tokens"],
            "in common": one["prefix"],
            "of the prompt": f"{one['share_of_prompt']:.1%}",
            "of what could be cached": f"{one['share_of_reusable']:.1%}",
        }
        for one in report["variants"]
    ]
    return f"{report['requests']} requests, each compared with the one before\n\n{format_columns(COLUMNS, rows)}"


def format_placement(asked: str, used: str) -> str:
    return asked if asked == used else f"{asked} (as {used})"
