"""Reads a directory of policy files as one set: every entry with its location."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel

from gateway.domain.record import Record
from gateway.errors import INVALID_FAULT, Fault, Faults
from gateway.strict_yaml import Keys, YamlDocument, parse_yaml, read_file
from gateway.validation import format_suggestion, validate

SUFFIXES = (".yaml", ".yml")
SECTIONS = ("contexts", "profiles", "agents", "prompts", "recipes", "content", "documents")
KNOWLEDGE = "knowledge"  # a section of several kinds, which is no part of a snapshot

Model = TypeVar("Model", bound=BaseModel)


class EntryLocation(msgspec.Struct, frozen=True):
    """A place in a policy file."""

    document: YamlDocument
    keys: Keys

    def __truediv__(self, key: str | int) -> "EntryLocation":
        return EntryLocation(self.document, (*self.keys, key))

    def fault(self, message: str, code: str = INVALID_FAULT) -> Fault:
        return self.document.fault(self.keys, message, code)

    def validate(self, model: type[Model], data: Any) -> tuple[Model | None, list[Fault]]:
        """The data at this place as a model, or None with every fault that was found."""
        return validate(model, data, self.document, self.keys)

    def __str__(self) -> str:
        return f"{self.document.short_name}:{self.document.line(self.keys)}"


class PolicyEntry(msgspec.Struct, frozen=True):
    """One named object of a policy file or of the store, not yet validated."""

    alias: str
    location: EntryLocation
    data: Any
    record: Record | None = None  # None: the entry is in a file


Sections = dict[str, dict[str, PolicyEntry]]  # section → alias → entry


def list_files(directory: Path) -> Iterator[Path]:
    """All files below a directory in sorted order; hidden files are skipped, linked directories followed.

    A mounted ConfigMap consists of links into a hidden `..data` directory that is swapped as a whole. Raises OSError
    for a directory that cannot be listed: skipping it would silently drop policies.
    """
    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(directory, followlinks=True, onerror=_raise):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back up
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


def _raise(error: OSError) -> None:
    raise error


class PolicyFiles:
    """The files below a directory; a file is parsed again only if its bytes have changed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._parsed: dict[str, tuple[bytes, YamlDocument]] = {}  # path → hash of its bytes, document
        self.knowledge: list[PolicyEntry] = []  # that section of each file, as it was read last

    def read(self) -> tuple[Sections, list[Fault]]:
        """Every entry of every file by section and alias, and the faults of the files themselves."""
        faults: list[Fault] = []
        sections: Sections = {section: {} for section in SECTIONS}
        self.knowledge = []
        if not self._directory.is_dir():
            return sections, [Fault(str(self._directory), 1, "(file)", "the policy directory does not exist")]
        try:
            paths = [path for path in list_files(self._directory) if path.suffix in SUFFIXES]
        except OSError as error:
            where = str(error.filename or self._directory)
            return sections, [Fault(where, 1, "(file)", f"cannot be read: {error.strerror}")]
        names = {str(path) for path in paths}
        self._parsed = {name: known for name, known in self._parsed.items() if name in names}
        for path in paths:
            try:
                faults += _add_document(sections, self._parse(path), self.knowledge)
            except Faults as error:
                faults += error.faults
        return sections, faults

    def _parse(self, path: Path) -> YamlDocument:
        name = str(path)
        raw = read_file(path, name)
        if not raw.strip():  # most programs empty a file before they write it
            message = "is empty; if nothing belongs in it, delete it or write a comment"
            raise Faults([Fault(name, 1, "(file)", message)])
        digest = hashlib.sha256(raw).digest()
        known = self._parsed.get(name)
        if known is None or known[0] != digest:
            known = self._parsed[name] = digest, replace(parse_yaml(raw, name), folder=str(self._directory))
        return known[1]


def split_entries(data: Any, location: EntryLocation) -> tuple[list[PolicyEntry], list[Fault]]:
    """The named entries of a mapping; null counts as an empty mapping."""
    if data is None:
        return [], []
    if not isinstance(data, dict):
        return [], [location.fault("must be a mapping")]
    return [PolicyEntry(alias, location / alias, value) for alias, value in data.items()], []


def _add_document(sections: Sections, document: YamlDocument, knowledge: list[PolicyEntry]) -> list[Fault]:
    tops, faults = split_entries(document.data, EntryLocation(document, ()))
    for top in tops:
        if top.alias == KNOWLEDGE:
            knowledge.append(top)
            continue
        if top.alias not in sections:
            hint = format_suggestion(top.alias, (*sections, KNOWLEDGE))
            faults.append(top.location.fault(f"is not a known key{hint}"))
            continue
        entries, section_faults = split_entries(top.data, top.location)
        faults += section_faults
        known = sections[top.alias]
        for entry in entries:
            if entry.alias in known:
                faults.append(
                    entry.location.fault(f"{entry.alias!r} is already defined in {known[entry.alias].location}")
                )
            else:
                known[entry.alias] = entry
    return faults
