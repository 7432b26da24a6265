"""Strict YAML: plain data plus the line of every value, and a fault for anything that could surprise the author.

Only a subset is accepted: no anchors, aliases, merge keys or tags (201 bytes of them can expand to 3 MB), no duplicate
keys, and no words that turn into other types: `no`, `on` and dates stay strings.
"""

import math
import re
import stat
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gateway.errors import INVALID_FAULT, Fault, Faults

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64

Keys = tuple[str | int, ...]  # the path from a document's root to a value

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Leading zeros (postal codes) and more digits than an ordinary number has stay strings.
INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)?\.[0-9]+(?:[eE][-+]?[0-9]+)?")
WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "~": None, "": None}


class YamlDocument(msgspec.Struct, frozen=True):
    """One file: its data and the line of each value."""

    name: str
    data: Any
    lines: dict[Keys, int]
    folder: str = ""  # the directory that short_name is relative to

    @property
    def short_name(self) -> str:
        return self.name.removeprefix(self.folder).lstrip("/") if self.folder else self.name

    def line(self, keys: Keys) -> int:
        """The line of a value, or of the nearest enclosing value in the file."""
        while keys not in self.lines and keys:
            keys = keys[:-1]
        return self.lines.get(keys, 1)

    def fault(self, keys: Keys, message: str, code: str = INVALID_FAULT) -> Fault:
        return Fault(self.name, self.line(keys), format_path(keys), message, keys, code)


def format_path(keys: Keys) -> str:
    """A path as people write it: `contexts.legal.resources.notice`."""
    return ".".join(str(key) for key in keys) or "(file)"


def load_yaml(path: Path, name: str | None = None) -> YamlDocument:
    """Read and parse one file; raises Faults."""
    name = name or str(path)
    return parse_yaml(read_file(path, name), name)


def read_file(path: Path, name: str) -> bytes:
    """The bytes of a regular file, at most one more than is allowed; raises Faults."""
    try:
        # A pipe or a device would block or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise Faults([Fault(name, 1, "(file)", "is not a regular file")])
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Faults([Fault(name, 1, "(file)", f"cannot be read: {error.strerror}")]) from error


def parse_yaml(raw: bytes | str, name: str, max_bytes: int = MAX_BYTES) -> YamlDocument:
    """Parse the text of one file; raises Faults with every fault in it."""
    raw = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    if len(raw) > max_bytes:
        raise Faults([Fault(name, 1, "(file)", f"is larger than {max_bytes} bytes; split it into several files")])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Faults([Fault(name, line, "(file)", "is not valid UTF-8")]) from error
    builder = _DocumentBuilder(name)
    try:
        for event in yaml.parse(text, Loader=LOADER):
            builder.feed(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        builder.report(mark.line + 1 if mark else 1, error.problem or "is not valid YAML")
    except yaml.reader.ReaderError as error:
        builder.report(1, f"contains a character that YAML does not allow: {error.reason}")
    except _ParsingStopped:
        pass
    if builder.faults:
        raise Faults(builder.faults)
    return YamlDocument(name, builder.root, builder.lines)


class _ParsingStopped(Exception):
    """Ends parsing after a fault that has already been reported."""


class _OpenCollection(msgspec.Struct):
    """A mapping or sequence that has not ended yet."""

    value: dict[str, Any] | list[Any]
    keys: Keys
    key: str | None = None  # mappings: the key whose value comes next


class _DocumentBuilder:
    """Turns parser events into data; it keeps its own stack, so that deep nesting cannot exhaust Python's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.root: Any = None
        self.lines: dict[Keys, int] = {}
        self.faults: list[Fault] = []
        self._open: list[_OpenCollection] = []
        self._documents = 0

    def report(self, line: int, message: str) -> None:
        self.faults.append(Fault(self.name, line, format_path(self._path), message))

    @property
    def _path(self) -> Keys:
        """The path of the next value."""
        if not self._open:
            return ()
        parent = self._open[-1]
        if isinstance(parent.value, list):
            return (*parent.keys, len(parent.value))
        return parent.keys if parent.key is None else (*parent.keys, parent.key)

    def feed(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self.report(line, "contains more than one document; use one file for each")
                raise _ParsingStopped
        elif isinstance(event, yaml.AliasEvent):
            self.report(line, f"aliases are not allowed: write out *{event.anchor}")
            self._add("", line)
        elif isinstance(event, yaml.ScalarEvent):
            self._check_tag_and_anchor(event, line)
            self._add_scalar(event, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._check_tag_and_anchor(event, line)
            self._enter({} if isinstance(event, yaml.MappingStartEvent) else [], line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()

    def _check_tag_and_anchor(self, event: yaml.NodeEvent, line: int) -> None:
        if event.anchor:
            self.report(line, f"anchors are not allowed: &{event.anchor}")
        tag = getattr(event, "tag", None)
        if tag:
            self.report(line, f"tags are not allowed: {tag}")

    def _add_scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        plain = event.style is None or event.style == ""
        value = resolve_scalar(event.value) if plain else event.value
        if not self._expects_key:
            self._add(value, line)
        elif plain and value == "<<":
            self.report(line, "merge keys are not allowed: write the keys out")
            self._set_key(value, line)
        elif not isinstance(value, str):
            self.report(line, f"keys must be strings: put {event.value!r} in quotes")
            self._set_key(event.value, line)
        else:
            self._set_key(value, line)

    @property
    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _set_key(self, key: str, line: int) -> None:
        parent = self._open[-1]
        parent.key = key
        if key in parent.value:
            self.report(line, f"is given twice, first in line {self.lines.get(self._path, line)}")
        else:
            self.lines[self._path] = line

    def _enter(self, value: dict[str, Any] | list[Any], line: int) -> None:
        if len(self._open) >= MAX_DEPTH:
            self.report(line, f"is nested deeper than {MAX_DEPTH} levels")
            raise _ParsingStopped
        if self._expects_key:
            self.report(line, "keys must be strings, not lists or mappings")
            raise _ParsingStopped
        self._open.append(_OpenCollection(value, self._add(value, line)))

    def _add(self, value: Any, line: int) -> Keys:
        """Add a value to its parent and return its path."""
        keys = self._path
        self.lines.setdefault(keys, line)  # a value with a key has the line of its key
        if not self._open:
            self.root = value
            return keys
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:  # an alias in place of a key; already reported
            parent.key = ""
        else:
            parent.value[parent.key], parent.key = value, None
        return keys


def resolve_scalar(word: str) -> Any:
    """The value of a plain (unquoted) scalar: a number, true, false or null, otherwise the text itself."""
    if word in WORDS:
        return WORDS[word]
    if INTEGER.fullmatch(word):
        return int(word)
    if FLOAT.fullmatch(word) and math.isfinite(float(word)):
        return float(word)
    return word
