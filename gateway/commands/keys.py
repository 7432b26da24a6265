"""`gateway keys`: creates, lists and revokes API keys in the configured store."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

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
from gateway.domain.principal import Role
from gateway.errors import Faults

if TYPE_CHECKING:
    from gateway.control.key_shape import KeySpec
    from gateway.control.keys import CreatedKey

DURATION = re.compile(r"([1-9][0-9]{0,4})([mhd])")
UNITS = {"m": "minutes", "h": "hours", "d": "days"}
COLUMNS = (
    *("id", "name", "workspace", "role", "agents", "models", "tools"),
    *("groups", "tier", "limits", "expires_at", "source"),
)


def add_parser(subparsers: Subparsers) -> None:
    keys = subparsers.add_parser("keys", help="create, list and revoke API keys in the configured store")
    actions = keys.add_subparsers(required=True, metavar="ACTION")
    create = actions.add_parser("create", help="create a key and show it once")
    add_key_options(create)
    create.set_defaults(run=run_create)
    list_ = actions.add_parser("list", help="list keys, without their secrets")
    list_.add_argument("--workspace", help="only keys of this workspace")
    list_.set_defaults(run=run_list)
    revoke = actions.add_parser("revoke", help="revoke a key; running gateways notice within two seconds")
    revoke.add_argument("id", metavar="ID")
    revoke.set_defaults(run=run_revoke)
    for parser in (create, list_, revoke):
        add_common_options(parser, policies=False)


def add_key_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", help="name in logs and lists; default: the id of the key")
    add_workspace_option(parser, "workspace of the key")
    parser.add_argument("--role", choices=[role.value for role in Role], default=Role.CHAT.value, help="default: chat")
    parser.add_argument("--agents", type=split_list, metavar="A,B", help="agents that the key may use; default: all")
    parser.add_argument("--agent", help="agent of all its requests, whatever they name")
    parser.add_argument("--agent-optional", action="store_true", help="with --agents: allow requests without an agent")
    parser.add_argument("--models", type=split_list, metavar="M,N*", help="models that the key may use; default: all")
    parser.add_argument("--tools", type=split_list, metavar="A/*,B", help="tools that the key may use; default: all")
    parser.add_argument("--groups", type=split_list, metavar="A,B", help='groups for reader lists; "*": every group')
    parser.add_argument("--tier", help="tier of the key")
    parser.add_argument("--requests", type=int, metavar="N", help="requests per minute; default: no limit")
    parser.add_argument("--tokens", type=int, metavar="N", help="tokens per minute; default: no limit")
    parser.add_argument("--act-for-users", action="store_true", help="allow the header x-context-user")
    parser.add_argument("--expires", type=parse_expiry, metavar="WHEN", help="90d, 12h, 2030-01-31 or an RFC 3339 time")


def split_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def parse_expiry(text: str) -> datetime:
    """A time, or a duration from now."""
    duration = DURATION.fullmatch(text)
    if duration is not None:
        return datetime.now(UTC).replace(microsecond=0) + timedelta(**{UNITS[duration[2]]: int(duration[1])})
    try:
        return parse_moment(text)
    except argparse.ArgumentTypeError:
        message = f"{text!r} is neither a duration (90d, 12h), a date (2030-01-31) nor a time (2030-01-31T12:00:00Z)"
        raise argparse.ArgumentTypeError(message) from None


def run_create(arguments: argparse.Namespace) -> int:
    from gateway.commands.stored_keys import create_key

    settings, spec = load_command_settings(arguments), parse_key_spec(arguments)
    created = run_async(create_key(settings, spec, arguments.workspace))
    if arguments.json:
        print_json(created.info.data | {"key": created.secret})
    else:
        print(format_created_key(created))
    return OK


def run_list(arguments: argparse.Namespace) -> int:
    from gateway.commands.stored_keys import list_keys

    keys = run_async(list_keys(load_command_settings(arguments), arguments.workspace))
    if arguments.json:
        print_json([key.data for key in keys])
    else:
        print(format_columns(COLUMNS, [key.data for key in keys]))
    return OK


def run_revoke(arguments: argparse.Namespace) -> int:
    from gateway.commands.stored_keys import revoke_key

    run_async(revoke_key(load_command_settings(arguments), arguments.id))
    if arguments.json:
        print_json({"revoked": arguments.id})
    else:
        print(f"{arguments.id} is revoked.")
    return OK


def parse_key_spec(arguments: argparse.Namespace) -> KeySpec:
    """The key that the command line asks for; raises Faults."""
    from gateway.control.key_shape import KeySpec
    from gateway.strict_yaml import YamlDocument
    from gateway.validation import validate

    names = ("name", "role", "agents", "agent", "agent_optional", "models", "tools", "tier", "act_for_users")
    data = {name: getattr(arguments, name) for name in names}
    data |= {"groups": arguments.groups or [], "expires_at": arguments.expires}
    data |= {"limits": {"requests": arguments.requests, "tokens": arguments.tokens}}
    spec, faults = validate(KeySpec, data, YamlDocument("(command line)", None, {}), ())
    if spec is None:
        raise Faults(faults)
    return spec


def format_created_key(created: CreatedKey) -> str:
    data = created.info.data
    return (
        f"Key {data['id']} of workspace {data['workspace']}, role {data['role']}:\n\n{created.secret}\n\n"
        "It is shown only once: the store keeps only its SHA-256 hash."
    )
