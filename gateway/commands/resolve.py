"""`gateway resolve`: shows the outgoing request for a question, and why each resource is in it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from gateway.commands.common import (
    OK,
    Subparsers,
    add_common_options,
    add_workspace_option,
    load_command_settings,
    print_json,
    run_async,
)
from gateway.commands.indexing import ProgressBar, extend_search_deadline, try_run_indexer
from gateway.domain.principal import Principal

if TYPE_CHECKING:
    from gateway.settings import Settings

HEADERS = (
    *("session", "agent", "profile", "prompt", "content", "task", "user"),
    *("language", "type", "budget", "contexts", "include", "exclude", "inject"),
)
SESSION_HEADERS = ("pin", "unpin")  # shown as if the session had changed; it does not


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("resolve", help="show the outgoing request and why each resource is in it")
    add_common_options(parser)
    add_workspace_option(parser, "workspace of the policies; default: default")
    parser.add_argument("--model", help="model that the request names")
    for name in (*HEADERS, *SESSION_HEADERS):
        parser.add_argument(f"--{name}", help=f"value of the header x-context-{name}")
    parser.add_argument("question", metavar="QUESTION", help="text of the user's message")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from gateway.preview import format_preview

    shown = run_async(resolve(load_command_settings(arguments), arguments))
    if arguments.json:
        print_json(shown, indent=True)
    else:
        print(format_preview(shown))
    return OK


async def resolve(settings: Settings, arguments: argparse.Namespace) -> dict[str, Any]:
    """The preview of the request; nothing is sent."""
    from gateway.app import Gateway
    from gateway.domain.exchange import Exchange
    from gateway.preview import preview_request

    gateway = await Gateway.open(extend_search_deadline(settings))
    try:
        # Whoever can run this command can read the policies: it may look at them as any user.
        operator = Principal("operator", arguments.workspace, rights=frozenset({"act_as_user", "admin"}))
        snapshot = gateway.policies.get_snapshot(arguments.workspace)
        exchange = Exchange("preview", operator, snapshot, build_headers(arguments))
        async with try_run_indexer(gateway, ProgressBar(sys.stderr)):
            return await preview_request(gateway.pipeline, exchange, build_body(arguments))
    finally:
        await gateway.close()


def build_headers(arguments: argparse.Namespace) -> list[tuple[bytes, bytes]]:
    names = (*HEADERS, *SESSION_HEADERS)
    given = {name: value for name in names if (value := getattr(arguments, name, None)) is not None}
    return [(f"x-context-{name}".encode(), quote(value).encode()) for name, value in given.items()]


def build_body(arguments: argparse.Namespace) -> bytes:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": arguments.question}]}
    if arguments.model:
        body["model"] = arguments.model
    return orjson.dumps(body)
