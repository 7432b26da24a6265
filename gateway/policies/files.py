"""Reads a directory of policy files as one set: every entry with the place it came from."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gateway.domain.record import Record
from gateway.errors import Fault, Faults
from gateway.strict_yaml import Keys, YamlDocument, parse, read
from gateway.validation import nearest

SUFFIXES = (".yaml", ".yml")
SECTIONS = ("contexts", "profiles", "agents", "prompts", "content", "documents")


@dataclass(frozen=True, slots=True)
class EntryLocation:
    """Somewhere in a policy file."""

    document: YamlDocument
    keys: Keys

    def __truediv__(self, key: str | int) -> "EntryLocation":
        return EntryLocation(self.document, (*self.keys, key))

    def fault(self, message: str) -> Fault:
        return self.document.fault(self.keys, message)

    def __str__(self) -> str:
        return f"{self.document.short_name}:{self.document.line(self.keys)}"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """One named thing in a policy file, not yet validated."""

    alias: str
    place: EntryLocation
    data: Any
    record: Record | None = None  # where it is stored; None: in a file


Sections = dict[str, dict[str, PolicyEntry]]


def files_below(directory: Path) -> Iterator[Path]:
    """All files below a directory in sorted order, hidden ones left out, linked directories followed.

    A mounted ConfigMap is made of links into a hidden `..data` directory that is swapped as a whole. Raises OSError for
    a directory that cannot be listed: leaving it out would drop policies in silence.
    """
    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(directory, followlinks=True, onerror=_refuse):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back up
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


class PolicyFiles:
    """The files below a directory; one whose bytes have not changed is not parsed again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._parsed: dict[str, tuple[bytes, YamlDocument]] = {}  # path → hash of its bytes

    def read(self) -> tuple[Sections, list[Fault]]:
        """Every entry of every file by section and alias, and what is wrong with the files as such."""
        faults: list[Fault] = []
        sections: Sections = {section: {} for section in SECTIONS}
        if not self._directory.is_dir():
            return sections, [Fault(str(self._directory), 1, "(file)", "there is no such policy directory")]
        try:
            paths = [path for path in files_below(self._directory) if path.suffix in SUFFIXES]
        except OSError as error:
            where = str(error.filename or self._directory)
            return sections, [Fault(where, 1, "(file)", f"cannot be read: {error.strerror}")]
        self._parsed = {name: known for name, known in self._parsed.items() if Path(name) in set(paths)}
        for path in paths:
            try:
                faults += _add(sections, self._document(path))
            except Faults as broken:
                faults += broken.faults
        return sections, faults

    def _document(self, path: Path) -> YamlDocument:
        name = str(path)
        raw = read(path, name)
        digest = hashlib.sha256(raw).digest()
        known = self._parsed.get(name)
        if known is None or known[0] != digest:
            known = self._parsed[name] = digest, replace(parse(raw, name), folder=str(self._directory))
        return known[1]


def _refuse(error: OSError) -> None:
    raise error


def entries(data: Any, place: EntryLocation) -> tuple[list[PolicyEntry], list[Fault]]:
    """The named things of a mapping; an empty one (null) is allowed."""
    if data is None:
        return [], []
    if not isinstance(data, dict):
        return [], [place.fault("must be a mapping")]
    return [PolicyEntry(alias, place / alias, value) for alias, value in data.items()], []


def _add(sections: Sections, document: YamlDocument) -> list[Fault]:
    tops, faults = entries(document.data, EntryLocation(document, ()))
    for top in tops:
        if top.alias not in sections:
            faults.append(top.place.fault(f"is not a known key{nearest(top.alias, sections)}"))
            continue
        found, wrong = entries(top.data, top.place)
        faults += wrong
        known = sections[top.alias]
        for entry in found:
            if entry.alias in known:
                faults.append(entry.place.fault(f"{entry.alias!r} is already defined in {known[entry.alias].place}"))
            else:
                known[entry.alias] = entry
    return faults
