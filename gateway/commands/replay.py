"""`gateway receipts replay`, and what it shares with `gateway diff`: policies by version, time or draft."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from gateway.commands.common import (
    OK,
    Subparsers,
    add_common_options,
    add_workspace_option,
    build_operator,
    load_command_settings,
    parse_moment,
    print_json,
    run_async,
)
from gateway.commands.indexing import ProgressBar, extend_search_deadline, try_run_indexer
from gateway.errors import InvalidRequest

if TYPE_CHECKING:
    from gateway.replay.overlay import PolicyChoice
    from gateway.replay.receipt_source import GivenRequest
    from gateway.replay.replayer import Replayer
    from gateway.settings import Settings

RECEIPT = "receipt"  # in place of a time: that of the receipt


def add_replay_parser(actions: Subparsers) -> None:
    parser = actions.add_parser("replay", help="show what would be sent for the request of a receipt")
    parser.add_argument("id", metavar="ID")
    parser.add_argument("question", nargs="?", metavar="QUESTION", help="text of the user's message")
    add_request_option(parser)
    add_policy_options(parser)
    add_workspace_option(parser, "workspace of the receipt")
    add_common_options(parser)
    parser.set_defaults(run=run_replay)


def add_request_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--request", type=Path, metavar="FILE", help="chat request to use, as JSON")


def add_policy_options(parser: argparse.ArgumentParser, side: str = "") -> None:
    """Add the options that choose policies; `side` stands before their names."""
    prefix, where = (f"--{side}-", f" of {side!r}") if side else ("--", "")
    parser.add_argument(
        f"{prefix}as-of", type=parse_time, metavar="WHEN", help=f"stored policies{where} at this time, or 'receipt'"
    )
    parser.add_argument(
        f"{prefix}version",
        type=parse_version,
        action="append",
        default=[],
        metavar="KIND/ALIAS=N",
        help=f"a stored version of an object{where}; may be repeated",
    )
    parser.add_argument(
        f"{prefix}draft",
        action="append",
        default=[],
        metavar="KIND/ALIAS",
        help=f"a draft{where} as if it were published; may be repeated",
    )
    parser.add_argument(f"{prefix}drafts", action="store_true", help=f"all drafts{where} as if they were published")


def parse_time(text: str) -> Any:
    return text if text == RECEIPT else parse_moment(text)


def parse_version(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form contexts/brand=3")
    return name, int(number)


def read_policies(arguments: argparse.Namespace, side: str = "") -> PolicyChoice:
    """The policies that the options choose; `receipt` as a time is left to the caller."""
    from gateway.replay.overlay import PolicyChoice

    given = vars(arguments)
    prefix = f"{side}_" if side else ""
    as_of = given[f"{prefix}as_of"]
    drafts = True if given[f"{prefix}drafts"] else given[f"{prefix}draft"]
    return PolicyChoice(
        None if as_of in (None, RECEIPT) else as_of.timestamp(), dict(given[f"{prefix}version"]), drafts
    )


def read_given(arguments: argparse.Namespace, context: dict[str, Any] | None = None) -> GivenRequest:
    """The request that the options give."""
    from gateway.replay.receipt_source import GivenRequest

    request = None
    if arguments.request is not None:
        try:
            request = orjson.loads(arguments.request.read_bytes())
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"{arguments.request} is not valid JSON: {error}.") from error
        if not isinstance(request, dict):
            raise InvalidRequest(f"{arguments.request} is not a chat request.")
    return GivenRequest(context or None, request, arguments.question)


@asynccontextmanager
async def open_replayer(settings: Settings) -> AsyncGenerator[Replayer]:
    """A replayer over the configured policies and store, whether or not a gateway runs on them."""
    from gateway.app import Gateway
    from gateway.control.services import ControlServices
    from gateway.replay.overlay import OverlayBuilder
    from gateway.replay.replayer import Replayer
    from gateway.replay.resolved_request import RequestResolver

    gateway = await Gateway.open(extend_search_deadline(settings))
    try:
        services = ControlServices.build(gateway.policies, gateway.stores.records, gateway.store)
        overlays = OverlayBuilder(
            gateway.policies, services.objects, gateway.stores.records, settings.versions.audit_days
        )
        async with try_run_indexer(gateway, ProgressBar(sys.stderr)):
            yield Replayer(RequestResolver(gateway.pipeline), overlays, gateway.receipts, gateway.threads)
    finally:
        await gateway.close()


def run_replay(arguments: argparse.Namespace) -> int:
    from gateway.replay.format import format_replay

    shown = run_async(replay(load_command_settings(arguments), arguments))
    if arguments.json:
        print_json(shown, indent=True)
    else:
        print(format_replay(shown))
    return OK


async def replay(settings: Settings, arguments: argparse.Namespace) -> dict[str, Any]:
    from gateway.replay.replayer import RequestChoice, describe_replay

    operator = build_operator(arguments.workspace)
    policies = read_policies(arguments)
    choice = RequestChoice(read_given(arguments), arguments.id, policies, arguments.as_of == RECEIPT)
    async with open_replayer(settings) as replayer:
        receipt = await replayer.find_receipt(arguments.workspace, arguments.id)
        return describe_replay(receipt, await replayer.replay(operator, receipt, choice))
