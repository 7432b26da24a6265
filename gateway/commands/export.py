"""`gateway export`: writes all policies of a workspace as one bundle or as files, whether or not a gateway runs."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from gateway.commands.common import (
    OK,
    Subparsers,
    add_common_options,
    add_workspace_option,
    load_command_settings,
    run_async,
)
from gateway.errors import Conflict

if TYPE_CHECKING:
    from gateway.settings import Settings

FILE_BYTES = 900_000  # of one file; larger ones than 1 MiB are not loaded


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("export", help="write all policies of a workspace as one bundle")
    parser.add_argument("--format", choices=["yaml", "json"], default="yaml", help="default: yaml")
    parser.add_argument(
        "--source", choices=["all", "stored"], default="all", help="stored: leave out what comes from policy files"
    )
    parser.add_argument("--to", type=Path, metavar="DIR", help="write policy files into a directory instead")
    add_common_options(parser, json=False)
    add_workspace_option(parser, "workspace to export")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    stored = arguments.source == "stored"
    settings = load_command_settings(arguments)
    if arguments.to is not None:
        written, snapshot = run_async(export_files(settings, arguments.workspace, arguments.to, stored=stored))
        print("\n".join([*map(str, written), f"ok: snapshot {snapshot}"]))
        return OK
    print(run_async(export_bundle(settings, arguments.workspace, format=arguments.format, stored=stored)), end="")
    return OK


async def export_bundle(settings: Settings, workspace: str, *, format: str, stored: bool) -> str:
    """The bundle of a workspace as text."""
    bundle = await build_workspace_bundle(settings, workspace, stored=stored)
    if format == "json":
        return orjson.dumps(bundle, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    return format_policies(bundle)


async def export_files(
    settings: Settings, workspace: str, directory: Path, *, stored: bool
) -> tuple[Sequence[Path], str]:
    """Write one policy file per section, and return their paths with the hash of the policies that they give.

    Raises Conflict if the directory holds policies of its own: together they would say something else.
    """
    from gateway.policy_check import check_policies

    bundle = await build_workspace_bundle(settings, workspace, stored=stored)
    texts = {directory / name: text for name, text in split_into_files(bundle)}
    await asyncio.to_thread(write_files, directory, texts)
    loaded = await asyncio.to_thread(check_policies, settings.model_copy(update={"policies": str(directory)}))
    return list(texts), loaded.hash[:12]


def split_into_files(bundle: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Names and texts of files that are small enough to be loaded; their order is that of the objects."""
    for section, objects in bundle.items():
        parts: list[dict[str, Any]] = [{}]
        size = 0
        for keys, data in list_objects(section, objects):
            length = len(format_policies({keys[-1]: data}).encode())
            if parts[-1] and size + length > FILE_BYTES:
                parts.append({})
                size = 0
            place = parts[-1]
            for key in keys[:-1]:
                place = place.setdefault(key, {})
            place[keys[-1]] = data
            size += 2 * length  # deeper in the file, each line is indented further
        for number, part in enumerate(parts, 1):
            name = section if len(parts) == 1 else f"{section}-{number:03}"
            yield f"{name}.yaml", format_policies({section: part})


def list_objects(section: str, objects: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The objects of a section, each with its keys in it; what is known stands below its kind."""
    from gateway.policies.files import KNOWLEDGE

    for key, data in objects.items():
        if section == KNOWLEDGE:
            yield from (((key, identity), item) for identity, item in data.items())
        else:
            yield (key,), data


def write_files(directory: Path, texts: Mapping[Path, str]) -> None:
    """Replace the policy files of an earlier export; nothing is written if there are others."""
    from gateway.policies.files import KNOWLEDGE, SECTIONS, SUFFIXES, list_files

    directory.mkdir(parents=True, exist_ok=True)
    present = [path for path in list_files(directory) if path.suffix in SUFFIXES]
    own = re.compile(rf"({'|'.join((*SECTIONS, KNOWLEDGE))})(-\d{{3}})?\.yaml")
    if others := [path for path in present if path.parent != directory or not own.fullmatch(path.name)]:
        raise Conflict(f"{directory} holds other policies, such as {others[0].name}. Choose an empty directory.")
    for path in present:
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


async def build_workspace_bundle(settings: Settings, workspace: str, *, stored: bool) -> dict[str, Any]:
    """All objects of a workspace."""
    from gateway.commands.offline_policies import open_policies
    from gateway.control.bundle_export import BundleExporter, build_bundle
    from gateway.control.bundle_knowledge import export_items
    from gateway.policies.whole_entries import read_whole_entries

    async with open_policies(settings) as offline:
        entries = await read_whole_entries(offline.policies, workspace)
        objects = await asyncio.to_thread(BundleExporter(offline.documents).objects, entries, stored=stored)
        known = (await offline.open_graphs()).get(workspace)
    return build_bundle(objects, export_items(known, stored=stored))


def format_policies(data: dict[str, Any]) -> str:
    """Policies as YAML; raises Conflict for what cannot be written so."""
    from gateway.control.yaml_writer import format_yaml

    try:
        return format_yaml(data)
    except ValueError as error:
        raise Conflict(f"The policies cannot be exported as YAML: {error}.") from error
