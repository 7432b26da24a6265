"""The words of commands that have many of them, apart from what they do: `gateway serve` never loads that."""

import argparse
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gateway.control.key_shape import Label
from gateway.domain.principal import Role
from gateway.policies.shapes import Moment

SPAN = re.compile(r"([1-9][0-9]{0,4})([mhd])")
UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def bundle_parsers(commands: Any, config: Path | None) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The words of both commands."""
    out = commands.add_parser("export", help="write all policies of a workspace as one bundle")
    out.add_argument("--format", choices=["yaml", "json"], default="yaml")
    out.add_argument("--source", choices=["all", "stored"], default="all", help="leave out what policy files say")
    into = commands.add_parser("import", help="take a bundle over into the store, all of it or nothing")
    into.add_argument("--dry-run", action="store_true", help="only tell what would change")
    into.add_argument("--replace", action="store_true", help="delete stored objects that the bundle lacks")
    into.add_argument("--json", action="store_true")
    into.add_argument("file", type=Path, metavar="FILE", help="a bundle in YAML, or in JSON if it ends with .json")
    for command in (out, into):
        command.add_argument("--config", type=Path, default=config)
        command.add_argument("--policies", type=Path)
        command.add_argument("--workspace", type=label, default="default")
    return out, into


def keys_parsers(commands: Any, common: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The command's own words; `common` has what every one of them takes."""
    keys = commands.add_parser("keys", help="make, list and revoke keys in the configured store")
    actions = keys.add_subparsers(required=True, metavar="ACTION")
    made = actions.add_parser("create", help="make a key and show it this once", parents=[common])
    made.add_argument("--name", help="how logs and lists call it; its id when absent")
    made.add_argument("--workspace", type=label, default="default", help="the tenant that it belongs to")
    made.add_argument("--role", choices=[role.value for role in Role], default=Role.CHAT.value)
    made.add_argument("--agents", type=words, metavar="A,B", help="the agents it may use; all when absent")
    made.add_argument("--agent", help="the agent of requests that name none")
    made.add_argument("--groups", type=words, metavar="A,B", help='for reader lists; "*": every group')
    made.add_argument("--tier")
    made.add_argument("--requests", type=int, metavar="N", help="requests per minute")
    made.add_argument("--tokens", type=int, metavar="N", help="tokens per minute")
    made.add_argument("--act-for-users", action="store_true", help="may send x-context-user")
    made.add_argument("--expires", type=expiry, metavar="WHEN", help="90d, 12h, 2030-01-31 or a full RFC 3339 time")
    shown = actions.add_parser("list", help="list keys; never the keys themselves", parents=[common])
    shown.add_argument("--workspace", help="of one workspace only")
    ended = actions.add_parser("revoke", help="end a key; running gateways follow within two seconds", parents=[common])
    ended.add_argument("id", metavar="ID")
    return {"create": made, "list": shown, "revoke": ended}


def label(text: str) -> str:
    try:
        return TypeAdapter(Label).validate_python(text)
    except ValidationError:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to 64 printable characters") from None


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def expiry(text: str) -> datetime:
    """A moment, or a span from now."""
    span = SPAN.fullmatch(text)
    if span is not None:
        return datetime.now(UTC).replace(microsecond=0) + timedelta(**{UNITS[span[2]]: int(span[1])})
    try:
        return TypeAdapter(Moment).validate_python(text)
    except (ValidationError, ValueError):
        message = f"{text!r} is neither a span (90d, 12h) nor a time with its zone (2030-01-31T12:00:00Z)"
        raise argparse.ArgumentTypeError(message) from None
