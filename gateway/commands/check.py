"""`gateway check`: validates the configuration and the policy files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.commands.common import (
    CONFIG,
    OK,
    Subparsers,
    add_common_options,
    load_command_settings,
    print_json,
    run_async,
)
from gateway.errors import StoreError

if TYPE_CHECKING:
    from gateway.settings import Settings


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("check", help="validate the configuration and the policies")
    add_common_options(parser)
    parser.set_defaults(run=run)


async def list_shadowed(settings: Settings) -> list[dict[str, str]]:
    """The entries of policy files that stored objects have taken over from, by workspace; raises StoreError."""
    from gateway.policies.files import PolicyFiles
    from gateway.policies.workspace import ADOPTED
    from gateway.stores.open import has_store, open_stores

    if not has_store(settings.store):
        return []
    stores = await open_stores(settings.store)
    try:
        marks = [one.key for one in (await stores.records.load()).records if one.key.kind == ADOPTED]
    finally:
        await stores.close()
    sections, _ = PolicyFiles(Path(settings.policies)).read() if marks else ({}, [])
    found = []
    for key in sorted(marks):
        kind, _, alias = key.alias.partition("/")
        entry = sections.get(kind, {}).get(alias if kind != "content" else alias.partition("/")[0])
        if entry is not None:
            found.append({"workspace": key.workspace, "object": key.alias, "file": str(entry.location)})
    return found


def describe_sources(arguments: argparse.Namespace, settings: Settings, *, has_policies: bool) -> Iterator[str]:
    """What was checked, where that is easily taken for something else."""
    if arguments.config is None:
        yield f"there is no {CONFIG} here and no --config: the built-in demo was checked, with {settings.policies}"
    if not has_policies:
        yield f"there are no policies in {settings.policies}"


def run(arguments: argparse.Namespace) -> int:
    from gateway.control.sizes import ContextSizes, list_mode_advice
    from gateway.edge.auth import NO_KEYS
    from gateway.policy_check import check_policies, list_summary_warnings, load_type_registry
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
        "recipes": len(snapshot.recipes),
        "nodes": len(snapshot.tree.nodes),
    }
    count = partial(BpeCounter().count, model=settings.defaults.model or "")
    warnings = list(ContextSizes(snapshot, count, settings.defaults.budget).list_warnings())
    warnings += list_summary_warnings(settings, snapshot)
    advice = list(list_mode_advice(snapshot, load_type_registry(settings), count))
    try:
        shadowed = run_async(list_shadowed(settings))
    except StoreError as error:
        shadowed = []
        print(f"note: whether stored objects shadow some of these is unknown: {error}", file=sys.stderr)
    if arguments.json:
        shown = {"ok": True, "snapshot": snapshot.hash[:12], "faults": [], "warnings": warnings, "shadowed": shadowed}
        print_json(shown | {"advice": advice} | counts)
    else:
        print(f"ok: {', '.join(f'{number} {noun}' for noun, number in counts.items())}")
    if not arguments.json:
        for sentence in describe_sources(arguments, settings, has_policies=any(counts.values())):
            print(f"note: {sentence}", file=sys.stderr)
        for warning in warnings:
            print(f"warning: {warning}", file=sys.stderr)
        for sentence in advice:
            print(f"note: {sentence}", file=sys.stderr)
        for one in shadowed:
            print(f"{one['file']}: {one['object']}: shadowed, workspace {one['workspace']} has adopted it")
    if not settings.auth.keys and not is_loopback(settings.listen.host):
        # The store may hold a key; it is not looked for here.
        print(f"note: listen.host {NO_KEYS}", file=sys.stderr)
    return OK
