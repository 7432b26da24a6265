"""`gateway import`: imports a bundle into the store, whether or not a gateway runs on it."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import replace

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
from gateway.errors import Fault, Faults, InvalidObject

if TYPE_CHECKING:
    from gateway.control.bundle_import import ImportOptions
    from gateway.control.bundle_plan import PlannedChange
    from gateway.settings import Settings
    from gateway.strict_yaml import YamlDocument

VALUE_LENGTH = 70  # code points of a value in the list of changes
OUTCOMES = {"create": "created", "update": "updated", "adopt": "adopted", "delete": "deleted", "unchanged": "unchanged"}


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("import", help="import a bundle into the store, all of it or nothing")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    parser.add_argument("--replace", action="store_true", help="delete stored objects that are not in the bundle")
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="bundle in YAML, or in JSON if its name ends with .json"
    )
    add_common_options(parser)
    add_workspace_option(parser, "workspace to import into")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from gateway.control.bundle_import import ImportOptions

    options = ImportOptions(arguments.replace, arguments.dry_run)
    settings = load_command_settings(arguments)
    changes = run_async(import_bundle(settings, arguments.workspace, arguments.file, options))
    if arguments.json:
        print_json(describe_changes(changes, dry_run=options.dry_run), indent=True)
    else:
        print(format_changes(changes, dry_run=options.dry_run))
    return OK


async def import_bundle(settings: Settings, workspace: str, file: Path, options: ImportOptions) -> list[PlannedChange]:
    """Import a bundle; raises Faults with their lines, and Conflict."""
    from gateway.commands.offline_policies import open_policies
    from gateway.control.bundle_import import BundleImporter
    from gateway.control.writer import PolicyWriter

    require_lasting_store(settings, "import into")
    document = await asyncio.to_thread(read_bundle_file, file)
    async with open_policies(settings) as offline:
        writer, graphs = PolicyWriter(offline.policies, offline.store), await offline.open_graphs()
        importer = BundleImporter(offline.policies, writer, offline.documents, graphs)
        try:
            return await importer.run(build_operator(workspace), replace(document, lines={}), options)
        except InvalidObject as error:
            raise add_lines(error, document) from error


def read_bundle_file(file: Path) -> YamlDocument:
    """A bundle in YAML, or in JSON if its name says so; raises Faults and OSError."""
    from gateway.strict_yaml import YamlDocument, parse_yaml

    raw = file.read_bytes()
    if file.suffix.lower() != ".json":
        return parse_yaml(raw, str(file), max_bytes=len(raw))
    try:
        return YamlDocument(str(file), orjson.loads(raw), {})
    except orjson.JSONDecodeError as error:
        raise Faults([Fault(str(file), error.lineno, "(file)", f"is not valid JSON: {error.msg}")]) from error


def add_lines(error: InvalidObject, document: YamlDocument) -> Faults:
    """Faults that name a JSON pointer as faults that name a line too."""
    from gateway.validation import format_pointer

    lines = {format_pointer(keys): line for keys, line in document.lines.items()}

    def find_line(pointer: str) -> int:
        while pointer and pointer not in lines:
            pointer = pointer.rpartition("/")[0]
        return lines.get(pointer, 1)

    found = [(fault.pointer or "", fault.message) for fault in error.faults]
    return Faults([Fault(document.name, find_line(at), at or "(file)", message) for at, message in found])


def format_changes(changes: Sequence[PlannedChange], *, dry_run: bool) -> str:
    """What was done, or would be, for a person; unchanged objects are only counted."""
    lines = []
    for change in changes:
        if change.action != "unchanged":
            lines.append(f"{change.action} {change.kind}/{change.alias}")
            lines += [
                f"  {one['pointer']}: {format_value(one['from'])} → {format_value(one['to'])}" for one in change.changes
            ]
    counts: Counter[str] = Counter(change.action for change in changes)
    shown = [action for action in OUTCOMES if counts[action] or action != "adopt"]
    total = ", ".join(f"{counts[action]} {OUTCOMES[action]}" for action in shown)
    return "\n".join([*lines, f"{total}{' (dry run: nothing was changed)' if dry_run else ''}"])


def describe_changes(changes: Sequence[PlannedChange], *, dry_run: bool) -> dict[str, Any]:
    """The same as the management API returns it."""
    items = [{"kind": one.kind, "alias": one.alias, "action": one.action, "changes": one.changes} for one in changes]
    return {"ok": True, "dry_run": dry_run, "items": items, "total": len(items)}


def format_value(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= VALUE_LENGTH else f"{text[: VALUE_LENGTH - 1]}…"
