"""`gateway diff`: what differs between two outgoing requests, or between one under different policies."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gateway.commands.common import (
    OK,
    Subparsers,
    add_common_options,
    add_workspace_option,
    build_operator,
    load_command_settings,
    print_json,
    run_async,
)
from gateway.commands.replay import (
    RECEIPT,
    add_policy_options,
    add_request_option,
    open_replayer,
    read_given,
    read_policies,
)
from gateway.commands.resolve import HEADERS
from gateway.errors import InvalidRequest

if TYPE_CHECKING:
    from gateway.replay.replayer import RequestChoice
    from gateway.settings import Settings

LISTS = ("contexts", "include", "exclude")


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("diff", help="show what differs between two outgoing requests")
    add_common_options(parser)
    add_workspace_option(parser, "workspace of policies and receipts")
    parser.add_argument("--receipt", metavar="ID", help="compare the request of this receipt")
    add_request_option(parser)
    parser.add_argument("--model", help="model that the request names")
    for name in HEADERS:
        parser.add_argument(f"--{name}", help=f"value of the header x-context-{name}")
    parser.add_argument(
        "--set",
        type=parse_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what the second request says instead: model or the name of a header, as in agent=support",
    )
    add_policy_options(parser, "from")
    add_policy_options(parser, "to")
    parser.add_argument("--to-policies", type=Path, metavar="DIR", help="policy directory of 'to'")
    parser.add_argument("question", nargs="?", metavar="QUESTION", help="text of the user's message")
    parser.set_defaults(run=run)


def parse_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in (*HEADERS, "model"):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form agent=support")
    return name, value


def run(arguments: argparse.Namespace) -> int:
    from gateway.replay.format import format_diff

    if arguments.receipt is None and arguments.request is None and arguments.question is None:
        raise InvalidRequest("Give a question, a --request or a --receipt to compare.")
    if arguments.receipt is None and RECEIPT in (arguments.from_as_of, arguments.to_as_of):
        raise InvalidRequest("The time of a receipt needs a --receipt.")
    shown = run_async(compare(load_command_settings(arguments), arguments))
    if arguments.json:
        print_json(shown, indent=True)
    else:
        print(format_diff(shown))
    return OK


async def compare(settings: Settings, arguments: argparse.Namespace) -> dict[str, Any]:
    operator = build_operator(arguments.workspace)
    if settings.store == "memory:":  # both sides have the same marks around their blocks
        settings = settings.model_copy(update={"secret": settings.secret or "comparison"})
    before, after = (build_side(arguments, side) for side in ("from", "to"))
    async with AsyncExitStack() as stack:
        first = second = await stack.enter_async_context(open_replayer(settings))
        if arguments.to_policies is not None:
            other = settings.model_copy(update={"policies": str(arguments.to_policies)})
            second = await stack.enter_async_context(open_replayer(other))
        pair = await first.resolve(operator, before), await second.resolve(operator, after)
        return await first.compare(*pair)


def build_side(arguments: argparse.Namespace, side: str) -> RequestChoice:
    """One of the two requests, with its policies."""
    from gateway.replay.replayer import RequestChoice

    said = {name: value for name in (*HEADERS, "model") if (value := getattr(arguments, name)) is not None}
    said |= dict(arguments.set) if side == "to" else {}
    model = said.pop("model", None)
    given = read_given(arguments, build_context(said))
    if model is not None:
        if arguments.receipt is not None and not given.has_text:
            raise InvalidRequest("The model of a receipt's request can be changed with --request only.")
        given = replace(given, request={**(given.request or {}), "model": model})
    is_then = getattr(arguments, f"{side}_as_of") == RECEIPT
    return RequestChoice(given, arguments.receipt, read_policies(arguments, side), is_then)


def build_context(said: Mapping[str, str]) -> dict[str, Any]:
    """Header values as a `context` object has them; raises InvalidRequest."""
    context: dict[str, Any] = dict(said)
    context |= {name: list(split_names(said[name])) for name in LISTS if name in said}
    if "budget" in said:
        if not said["budget"].isdigit():
            raise InvalidRequest("--budget must be a non-negative integer.")
        context["budget"] = int(said["budget"])
    return context


def split_names(text: str) -> Iterable[str]:
    return (name.strip() for name in text.split(",") if name.strip())
