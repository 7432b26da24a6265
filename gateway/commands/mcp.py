"""`gateway mcp`: contexts over standard input and output, for desktop clients that start their MCP servers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.commands.common import (
    OK,
    Subparsers,
    add_common_options,
    add_workspace_option,
    build_operator,
    load_command_settings,
    run_async,
)
from gateway.commands.resolve import HEADERS, build_headers
from gateway.errors import InvalidRequest

if TYPE_CHECKING:
    from gateway.domain.exchange import HeaderBytes


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("mcp", help="serve contexts to an MCP client over standard input and output")
    parser.add_argument("--url", help="address of a running gateway; default: read the policies in this process")
    parser.add_argument("--key-file", type=Path, help="with --url: a file that holds the key")
    add_common_options(parser, json=False)
    add_workspace_option(parser, "without --url: whose policies; default: default")
    for name in HEADERS:
        parser.add_argument(f"--{name}", help=f"value of the header x-context-{name}")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    headers = build_headers(arguments)
    if arguments.url is not None:
        return run_remote(arguments.url, arguments.key_file, headers)
    settings = load_command_settings(arguments)  # before the imports: what is wrong with them is said at once
    from gateway.commands.mcp_stdio import serve_policies
    from gateway.edge.logs import log_as_json
    from gateway.redaction import build_redactor

    with log_as_json(settings.log, build_redactor(settings)):
        run_async(serve_policies(settings, build_operator(arguments.workspace), headers))
    return OK


def run_remote(url: str, key_file: Path | None, headers: HeaderBytes) -> int:
    """Pass everything on to a running gateway."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise InvalidRequest("Write --url as http://127.0.0.1:8080.")
    from gateway.commands.mcp_relay import serve_gateway

    named = {name.decode(): value.decode() for name, value in headers}
    if key_file is not None:
        named["authorization"] = f"Bearer {key_file.read_text(encoding='utf-8').strip()}"
    run_async(serve_gateway(f"{url.rstrip('/')}/mcp", named))
    return OK
