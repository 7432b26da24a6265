"""`gateway import-content`: imports files into the content tree, whether or not a gateway runs on the store."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import asdict

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
from gateway.errors import Fault, Faults

if TYPE_CHECKING:
    from gateway.control.content_import import ContentImportResult
    from gateway.control.sources.source_node import ContentSource
    from gateway.policies.repository import PolicyRepository
    from gateway.settings import Settings

BAR = 30  # characters


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "import-content", help="import a folder of Markdown, JSON lines or CSV files into the content tree"
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="folder of Markdown, or a file: .jsonl, .csv")
    parser.add_argument("--parent", metavar="NODE", help="id or path of the node that everything is put below")
    parser.add_argument("--prune", action="store_true", help="delete stored nodes below --parent that PATH lacks")
    parser.add_argument("--dry-run", action="store_true", help="only count what would change")
    add_common_options(parser)
    add_workspace_option(parser, "workspace to import into")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    settings = load_command_settings(arguments)
    result = run_async(import_content(settings, arguments))
    if arguments.json:
        print_json({"ok": True, "dry_run": arguments.dry_run, **asdict(result)}, indent=True)
    else:
        counts = ", ".join(f"{count:,} {word}" for word, count in asdict(result).items())
        print(f"{counts}{' (dry run: nothing was changed)' if arguments.dry_run else ''}")
    return OK


async def import_content(settings: Settings, arguments: argparse.Namespace) -> ContentImportResult:
    """Import a path; raises Faults with files and lines, and Conflict."""
    from gateway.commands.offline_policies import open_policies
    from gateway.control.content_import import ContentImporter
    from gateway.control.writer import PolicyWriter

    require_lasting_store(settings, "import into")
    async with open_policies(settings) as offline:
        source = open_source(arguments.path, arguments.parent, offline.policies, arguments.workspace)
        importer = ContentImporter(offline.policies, PolicyWriter(offline.policies, offline.store))
        prune = (arguments.parent or "") if arguments.prune else None
        bar = ImportBar(sys.stderr)
        try:
            return await importer.run(
                build_operator(arguments.workspace), source, bar.show, dry_run=arguments.dry_run, prune=prune
            )
        finally:
            bar.close()


def open_source(path: Path, parent: str | None, policies: PolicyRepository, workspace: str) -> ContentSource:
    """The source that a path stands for; raises Faults."""
    from gateway.control.sources.markdown import MarkdownFolder
    from gateway.control.sources.rows import CsvFile, JsonLines

    node = None
    if parent is not None:
        node = policies.get_snapshot(workspace).tree.find(parent)
        if node is None:
            raise Faults([Fault("--parent", 1, parent, "there is no such node")])
    id, above = (None, "") if node is None else (node.id, node.path)
    if path.is_dir():
        return MarkdownFolder(path, id, above)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return JsonLines(path, id)
    if path.suffix.lower() == ".csv":
        return CsvFile(path, id, above)
    if not path.exists():
        raise Faults([Fault(str(path), 1, "(file)", "there is no such file or folder")])
    raise Faults([Fault(str(path), 1, "(file)", "is neither a folder nor a .jsonl, .ndjson or .csv file")])


class ImportBar:
    """Shows on a terminal how far the work is; elsewhere nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = False

    def show(self, what: str, done: int, total: int) -> None:
        if not self._stream.isatty():
            return
        filled = BAR * done // total if total else 0
        bar = f"[{'#' * filled}{' ' * (BAR - filled)}] {done:,} of {total:,}" if total else f"{done:,}"
        self._stream.write(f"\r{what} {bar} nodes\x1b[K")
        self._stream.flush()
        self._shown = True

    def close(self) -> None:
        """Leave a clean line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
