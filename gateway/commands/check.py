"""`gateway check`: validates the configuration and the policy files."""

import argparse
import sys

from gateway.commands.common import OK, Subparsers, add_common_options, load_command_settings, print_json


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("check", help="validate the configuration and the policies")
    add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from gateway.edge.auth import NO_KEYS
    from gateway.policy_check import check_policies
    from gateway.settings import is_loopback

    settings = load_command_settings(arguments)
    snapshot = check_policies(settings)
    counts = {
        "contexts": len(snapshot.contexts),
        "resources": len(snapshot.resources),
        "profiles": len(snapshot.profiles),
        "agents": len(snapshot.agents),
        "prompts": len(snapshot.prompts),
        "nodes": len(snapshot.nodes),
    }
    if arguments.json:
        print_json({"ok": True, "snapshot": snapshot.hash[:12], "faults": [], **counts})
    else:
        print(f"ok: {', '.join(f'{number} {noun}' for noun, number in counts.items())}")
    if not settings.auth.keys and not is_loopback(settings.listen.host):
        # The store, which may hold a key, is not opened here.
        print(f"note: listen.host {NO_KEYS}", file=sys.stderr)
    return OK
