"""`gateway adopt` and `gateway release`: stored objects take over from those of policy files, or give them back."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.commands.common import (
    OK,
    Subparsers,
    add_common_options,
    add_workspace_option,
    build_operator,
    load_command_settings,
    print_json,
    require_lasting_store,
    run_async,
)

if TYPE_CHECKING:
    from gateway.control.adoption import AdoptionStep
    from gateway.settings import Settings

OUTCOMES = {"adopt": "adopted", "release": "released", "unchanged": "unchanged"}
HELP = {
    "adopt": "let stored objects take over from those of policy files",
    "release": "give adopted objects back to the policy files",
}
ALL_HELP = {"adopt": "every object that can be adopted", "release": "everything that was adopted"}


def add_parser(subparsers: Subparsers) -> None:
    for command, text in HELP.items():
        parser = subparsers.add_parser(command, help=text)
        parser.add_argument("objects", nargs="*", metavar="OBJECT", help="such as contexts/seo; a node by its id")
        parser.add_argument("--all", action="store_true", help=ALL_HELP[command])
        parser.add_argument("--dry-run", action="store_true", help="only show what would happen")
        add_common_options(parser)
        add_workspace_option(parser, "workspace whose objects these are")
        parser.set_defaults(run=partial(run, parser, command))


def run(parser: argparse.ArgumentParser, command: str, arguments: argparse.Namespace) -> int:
    from gateway.policies.workspace import ADOPTED_KINDS

    pairs = [name.partition("/") for name in arguments.objects]
    if bool(pairs) == arguments.all:
        parser.error("name objects, such as contexts/seo, or use --all")
    for kind, _, alias in pairs:
        if kind not in ADOPTED_KINDS or not alias:
            parser.error(f"an object is named by its kind and alias, and the kinds are {', '.join(ADOPTED_KINDS)}")
    names = None if arguments.all else {(kind, alias) for kind, _, alias in pairs}
    settings = load_command_settings(arguments)
    steps = run_async(change_owner(settings, command, arguments.workspace, names, dry_run=arguments.dry_run))
    if arguments.json:
        print_json(describe_steps(steps, dry_run=arguments.dry_run), indent=True)
    else:
        print(format_steps(steps, dry_run=arguments.dry_run))
    return OK


async def change_owner(
    settings: Settings, command: str, workspace: str, names: set[tuple[str, str]] | None, *, dry_run: bool
) -> list[AdoptionStep]:
    """Adopt or release objects directly in the store; raises NotFound, Conflict and StoreError."""
    from gateway.commands.offline_policies import open_policies
    from gateway.control.adoption import Adoption
    from gateway.control.writer import PolicyWriter

    require_lasting_store(settings, command)
    async with open_policies(settings) as offline:
        writer = PolicyWriter(offline.policies, offline.store)
        adoption = Adoption(offline.policies, writer, offline.documents)
        work = adoption.adopt if command == "adopt" else adoption.release
        return await work(build_operator(workspace), names, dry_run=dry_run)


def format_steps(steps: Sequence[AdoptionStep], *, dry_run: bool) -> str:
    """What was done, or would be, for a person."""
    from gateway.commands.import_ import format_value

    lines = []
    for step in steps:
        where = f" ({step.file})" if step.file is not None else ""
        lines.append(f"{step.action} {step.kind}/{step.alias}{where}{f': {step.reason}' if step.reason else ''}")
        lines += [
            f"  {one['pointer']}: {format_value(one['from'])} → {format_value(one['to'])}" for one in step.changes
        ]
    counts: Counter[str] = Counter(step.action for step in steps)
    total = ", ".join(f"{counts[action]} {outcome}" for action, outcome in OUTCOMES.items() if counts[action])
    return "\n".join([*lines, f"{total or 'nothing to do'}{' (dry run: nothing was changed)' if dry_run else ''}"])


def describe_steps(steps: Sequence[AdoptionStep], *, dry_run: bool) -> dict[str, Any]:
    """The same as JSON."""
    items = [
        {
            "kind": step.kind,
            "alias": step.alias,
            "action": step.action,
            "file": step.file,
            "reason": step.reason,
            "changes": list(step.changes),
        }
        for step in steps
    ]
    return {"ok": True, "dry_run": dry_run, "items": items, "total": len(items)}
