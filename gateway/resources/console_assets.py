"""What a resource type brings along for the console: its icon, and an element that edits its data."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

# Only what a page loads: no documents that a browser would show by themselves.
SUFFIXES: Final = (".css", ".js", ".json", ".png", ".svg", ".webp", ".woff2")
FILE_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
ALIAS: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class ConsoleAssets(msgspec.Struct, frozen=True):
    """Files that the gateway serves to browsers for a type; nothing else of its package is served."""

    folder: Path  # such as Path(__file__).parent / "console"
    files: tuple[str, ...]  # names below the folder; modules import each other by relative paths
    editor: str | None = None  # the module whose default export is the element
    icon: str | None = None  # an SVG; its shape is filled with the colour of the text

    def list_faults(self, alias: str) -> Iterator[str]:
        """What is wrong with the assets of a type. Looks at the files."""
        if ALIAS.fullmatch(alias) is None:
            yield f"{alias!r} cannot be part of an address: use small letters, digits and dashes"
        yield from (f"{name!r} {fault}" for name in self.files if (fault := self._find_fault(name)) is not None)
        for role, name, suffix in (("editor", self.editor, ".js"), ("icon", self.icon, ".svg")):
            if name is not None and (name not in self.files or not name.endswith(suffix)):
                yield f"the {role} {name!r} has to be one of its files and end in {suffix}"

    def _find_fault(self, name: str) -> str | None:
        if FILE_NAME.fullmatch(name) is None:
            return "is not a plain name below its folder"
        path = self.folder / name
        if path.suffix not in SUFFIXES:
            return f"does not end in one of {', '.join(SUFFIXES)}"
        if not path.is_file():
            return f"is not a file in {self.folder}"
        if not path.resolve().is_relative_to(self.folder.resolve()):
            return "leads out of its folder"
        return None
