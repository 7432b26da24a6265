"""The `gateway` command: assembles the commands and turns errors into exit codes."""

import argparse
import sys
from collections.abc import Sequence

from gateway.commands import (
    adopt,
    cache_report,
    check,
    diff,
    evaluate,
    export,
    import_,
    import_content,
    import_knowledge,
    index,
    keys,
    mcp,
    receipts,
    resolve,
    serve,
    stats,
)
from gateway.commands.common import FAULT, OK, print_faults
from gateway.errors import Faults, GatewayError, StoreError

COMMANDS = (
    *(serve, check, resolve, diff, index, evaluate, export, import_, import_content, import_knowledge, adopt),
    *(keys, receipts, stats, cache_report, mcp),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 ok, 1 fault, 2 usage."""
    parsed = build_parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except Faults as faults:
        # What `serve` prints to standard output is the address, what `mcp` does the protocol; faults go where logs go.
        to_stderr = parsed.run in (serve.run, mcp.run)
        print_faults(faults.faults, as_json=getattr(parsed, "json", False), to_stderr=to_stderr)
    except (StoreError, GatewayError, OSError) as error:
        print(f"gateway: {describe_failure(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        return OK
    return FAULT


def describe_failure(error: Exception) -> str:
    """What went wrong; of a file its name and why, without the number of the system."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class ShowVersion(argparse.Action):
    """Looks the version up only for whoever asks for it: that takes longer than parsing everything else."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"gateway {version('context-gateway')}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gateway", description="An OpenAI-compatible proxy that adds context.")
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser
