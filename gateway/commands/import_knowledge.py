"""`gateway import-knowledge`: imports entities, relationships and axioms into the store."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

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
    from gateway.control.knowledge_import import KnowledgeImport
    from gateway.settings import Settings

BAR = 40  # characters of the progress bar


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("import-knowledge", help="import a knowledge graph from JSON lines")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    parser.add_argument("--replace", action="store_true", help="delete stored items that are not in the file")
    parser.add_argument("file", type=Path, metavar="FILE", help="one JSON object per line, with its `kind`")
    add_common_options(parser)
    add_workspace_option(parser, "workspace to import into")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    settings = load_command_settings(arguments)
    require_lasting_store(settings, "import into")
    done = run_async(import_file(settings, arguments))
    counts = {name: getattr(done, name) for name in ("created", "updated", "deleted", "unchanged")}
    if arguments.json:
        print_json({"ok": True, "dry_run": arguments.dry_run, **counts}, indent=True)
    else:
        note = " (dry run: nothing was changed)" if arguments.dry_run else ""
        print(", ".join(f"{number} {name}" for name, number in counts.items()) + note)
    return OK


async def import_file(settings: Settings, arguments: argparse.Namespace) -> KnowledgeImport:
    """Import a file; raises Faults with their lines, Conflict, QuotaExceeded and StoreError."""
    from gateway.commands.offline_policies import open_policies
    from gateway.control.knowledge_import import KnowledgeImporter, read_lines

    found = await asyncio.to_thread(read_lines, arguments.file)
    async with open_policies(settings) as offline:
        return await KnowledgeImporter(await offline.open_graphs()).run(
            build_operator(arguments.workspace),
            found,
            show_progress,
            replace=arguments.replace,
            dry=arguments.dry_run,
        )


def show_progress(done: int, total: int) -> None:
    """A bar on the terminal; nothing where standard error is a file."""
    if sys.stderr.isatty():
        filled = BAR * done // max(1, total)
        end = "\n" if done >= total else ""
        print(f"\r[{'#' * filled}{'.' * (BAR - filled)}] {done:,} of {total:,}", end=end, file=sys.stderr, flush=True)
