"""`gateway export`: writes all policies of a workspace as one bundle, whether or not a gateway runs on the store."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

import orjson

from gateway.commands.common import OK, Subparsers, add_common_options, load_command_settings, parse_label, run_async
from gateway.errors import Conflict

if TYPE_CHECKING:
    from gateway.settings import Settings


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("export", help="write all policies of a workspace as one bundle")
    parser.add_argument("--format", choices=["yaml", "json"], default="yaml", help="default: yaml")
    parser.add_argument(
        "--source", choices=["all", "stored"], default="all", help="stored: leave out what comes from policy files"
    )
    add_common_options(parser, json=False)
    parser.add_argument("--workspace", type=parse_label, default="default", help="workspace to export")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    stored = arguments.source == "stored"
    settings = load_command_settings(arguments)
    print(run_async(export_bundle(settings, arguments.workspace, format=arguments.format, stored=stored)), end="")
    return OK


async def export_bundle(settings: Settings, workspace: str, *, format: str, stored: bool) -> str:
    """The bundle of a workspace as text."""
    from gateway.commands.offline_policies import open_policies
    from gateway.control.bundle_export import BundleExporter, build_bundle
    from gateway.control.yaml_writer import format_yaml

    async with open_policies(settings) as offline:
        entries = offline.policies.entries(workspace)
        objects = await asyncio.to_thread(BundleExporter(offline.documents).objects, entries, stored=stored)
    bundle = build_bundle(objects)
    if format == "json":
        return orjson.dumps(bundle, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    try:
        return format_yaml(bundle)
    except ValueError as error:
        raise Conflict(f"The policies cannot be exported as YAML: {error}.") from error
