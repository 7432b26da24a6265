"""What commands share: exit codes, common options, output and the operator's rights."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import orjson

from gateway.domain.principal import ANY_GROUP, Principal, Role
from gateway.errors import Fault, StoreError

if TYPE_CHECKING:
    from gateway.settings import Settings

OK, FAULT = 0, 1  # argparse exits with 2 by itself
CONFIG = Path("config.yaml")
POLICIES_HELP = "policy directory; default: the one in the configuration"

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Result = TypeVar("Result")


def find_config() -> Path | None:
    """The configuration that `serve` would read here; None, the built-in demo, if there is no such file."""
    return CONFIG if CONFIG.is_file() else None


def add_common_options(parser: argparse.ArgumentParser, *, policies: bool = True, json: bool = True) -> None:
    """Add `--config`, `--policies` and `--json`."""
    parser.add_argument(
        "--config", type=Path, default=find_config(), help="configuration file; default: config.yaml if it exists"
    )
    if policies:
        parser.add_argument("--policies", type=Path, help=POLICIES_HELP)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")


def add_workspace_option(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--workspace`; `what` says what of it the command is about."""
    parser.add_argument("--workspace", type=parse_label, default="default", help=what)


def parse_label(text: str) -> str:
    """A workspace or another name, for argparse."""
    from pydantic import TypeAdapter, ValidationError

    from gateway.control.key_shape import Label

    try:
        return TypeAdapter(Label).validate_python(text)
    except ValidationError:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to 64 printable characters") from None


def parse_moment(text: str) -> datetime:
    """A time with a time zone, or a date, for argparse."""
    from pydantic import TypeAdapter, ValidationError

    from gateway.policies.shapes import Moment

    try:
        return TypeAdapter(Moment).validate_python(text)
    except (ValidationError, ValueError):
        message = f"{text!r} is neither a date (2030-01-31) nor a time with a time zone (2030-01-31T12:00:00Z)"
        raise argparse.ArgumentTypeError(message) from None


def load_command_settings(arguments: argparse.Namespace) -> Settings:
    """The settings of `--config` with the other options applied; raises Faults."""
    from gateway.settings_loader import SettingsOverrides, load_settings

    given = vars(arguments)
    overrides = SettingsOverrides(given.get("host"), given.get("port"), given.get("policies"))
    return load_settings(arguments.config, overrides=overrides)


def require_lasting_store(settings: Settings, purpose: str) -> None:
    """Raise StoreError if the store is gone when the command ends."""
    if settings.store == "memory:":
        raise StoreError(
            f"The store is memory:, which is lost when the process ends. Name a configuration with another store to "
            f"{purpose}: --config FILE. Without it, {CONFIG} is read if it exists, else the built-in demo is used."
        )


def build_operator(workspace: str) -> Principal:
    """The person at the command line, who can write the store anyway: may grant everything in any workspace."""
    rights, groups = frozenset({"act_as_user"}), frozenset({ANY_GROUP})
    return Principal("operator", workspace, rights=rights, role=Role.ADMIN, groups=groups)


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the event loop that a gateway uses."""
    import uvloop

    return uvloop.run(work)


def print_json(data: Any, *, indent: bool = False) -> None:
    print(orjson.dumps(data, option=orjson.OPT_INDENT_2 if indent else 0).decode())


def print_faults(faults: Sequence[Fault], *, as_json: bool, to_stderr: bool) -> None:
    """One line per fault, or all of them as JSON on standard output."""
    if as_json:
        items = [{"file": f.file, "line": f.line, "path": f.path, "message": f.message} for f in faults]
        return print_json({"ok": False, "faults": items})
    for fault in faults:
        print(fault, file=sys.stderr if to_stderr else sys.stdout)


def format_columns(columns: Sequence[str], items: Sequence[Mapping[str, Any]]) -> str:
    """Some fields of each item as lines with aligned columns."""
    rows = [tuple(columns), *(tuple(format_cell(item.get(name)) for name in columns) for item in items)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def format_cell(value: Any) -> str:
    match value:
        case None | [] | "":
            return "-"
        case dict():
            return format_cell(",".join(f"{name}={number}" for name, number in value.items() if number is not None))
        case list():
            return ",".join(value)
        case _:
            return str(value)
