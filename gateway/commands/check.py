"""`gateway check`: validates the configuration and the policy files."""

import argparse
import sys
from functools import partial

from gateway.commands.common import OK, Subparsers, add_common_options, load_command_settings, print_json


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("check", help="validate the configuration and the policies")
    add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from gateway.control.sizes import ContextSizes
    from gateway.edge.auth import NO_KEYS
    from gateway.policy_check import check_policies
    from gateway.settings import is_loopback
    from gateway.tokens import BpeCounter

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
    count = partial(BpeCounter().count, model=settings.defaults.model or "")
    warnings = list(ContextSizes(snapshot, count, settings.defaults.budget).list_warnings())
    if arguments.json:
        print_json({"ok": True, "snapshot": snapshot.hash[:12], "faults": [], "warnings": warnings, **counts})
    else:
        print(f"ok: {', '.join(f'{number} {noun}' for noun, number in counts.items())}")
    if not arguments.json:
        for warning in warnings:
            print(f"warning: {warning}", file=sys.stderr)
    if not settings.auth.keys and not is_loopback(settings.listen.host):
        # The store, which may hold a key, is not opened here.
        print(f"note: listen.host {NO_KEYS}", file=sys.stderr)
    return OK
