"""Which gateway is imported: that of any checkout, together with the plugins that its pyproject.toml names."""

import importlib
import sys
import tomllib
from pathlib import Path
from typing import Any


class NoGateway(Exception):
    """A folder holds no checkout of the gateway."""


def use_checkout(tree: Path, directory: Path) -> Path:
    """Import the gateway from `tree` from now on; `directory` takes what an installation would note. Its package."""
    project = tree / "pyproject.toml"
    if not project.is_file() or not (tree / "gateway" / "__init__.py").is_file():
        raise NoGateway(f"There is no gateway in {tree}.")
    write_metadata(tomllib.loads(project.read_text())["project"], directory)
    sys.path[:0] = [str(tree), str(directory)]
    package = Path(str(importlib.import_module("gateway").__file__)).parent
    if package.parent != tree:
        raise NoGateway(f"The gateway was imported from {package.parent} before that of {tree} could be.")
    return package


def write_metadata(project: dict[str, Any], directory: Path) -> None:
    """The entry points of a checkout that is not installed; they hide those of the installed one."""
    folder = directory / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines: list[str] = []
    for group, points in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (folder / "entry_points.txt").write_text("\n".join([*lines, ""]))
