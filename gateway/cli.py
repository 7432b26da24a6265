"""The `gateway` command: assembles the commands and turns errors into exit codes."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from gateway.commands.common import FAULT, OK, print_faults
from gateway.errors import Faults, GatewayError, StoreError

# The module of each command, in the order of the help. Only the one that runs is loaded.
COMMANDS = {
    "serve": "serve",
    "demo": "serve",
    "check": "check",
    "resolve": "resolve",
    "diff": "diff",
    "index": "index",
    "eval": "evaluate",
    "export": "export",
    "import": "import_",
    "import-content": "import_content",
    "import-knowledge": "import_knowledge",
    "adopt": "adopt",
    "release": "adopt",
    "keys": "keys",
    "receipts": "receipts",
    "stats": "stats",
    "cache-report": "cache_report",
    "mcp": "mcp",
}
USES_STDOUT = {"serve", "demo", "mcp"}  # for the address or the protocol; faults go where logs go


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 ok, 1 fault, 2 usage."""
    given = sys.argv[1:] if arguments is None else arguments
    command = given[0] if given else ""
    parsed = build_parser(command).parse_args(given)
    try:
        return int(parsed.run(parsed))
    except Faults as faults:
        print_faults(faults.faults, as_json=getattr(parsed, "json", False), to_stderr=command in USES_STDOUT)
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


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """The parser of one command, or of all of them: building that takes six times as long."""
    parser = argparse.ArgumentParser(prog="gateway", description="An OpenAI-compatible proxy that adds context.")
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    modules = [COMMANDS[command]] if command in COMMANDS else dict.fromkeys(COMMANDS.values())
    for name in modules:
        import_module(f"gateway.commands.{name}").add_parser(subparsers)
    return parser
