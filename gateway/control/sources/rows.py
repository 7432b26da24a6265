"""JSON lines, each a node, and CSV files, whose rows are nodes below one for the file."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from gateway.control.sources.source_node import SourceNode, check_node, make_key
from gateway.errors import Fault
from gateway.policies.context_compiler import title_from_alias

MAX_LINE = 16 * 1024 * 1024  # bytes
MAX_FIELD = 1024 * 1024  # characters of a value in a row
MAX_COLUMNS = 200
DATABASE, ROW = "database", "row"  # the types of a file and of its rows
TITLES = ("title", "name")  # columns that a row is called by; otherwise by the first


class JsonLines:
    """A node per line: `id`, and what a policy file may say about a node, with `key` and `parent`."""

    def __init__(self, file: Path, parent: str | None = None) -> None:
        self._file = file
        self._parent = parent  # id of the node that nodes without a parent are put below

    def read(self) -> Iterator[SourceNode | Fault]:
        name = str(self._file)
        try:
            with self._file.open("rb") as stream:
                for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE + 1), b""), 1):
                    if line.strip():
                        yield from self._read_line(line, name, number)
                    if len(line) > MAX_LINE:
                        return
        except OSError as error:
            yield Fault(name, 1, "(file)", f"cannot be read: {error.strerror}")

    def _read_line(self, line: bytes, name: str, number: int) -> Iterator[SourceNode | Fault]:
        if len(line) > MAX_LINE:
            yield Fault(name, number, "(line)", f"is longer than {MAX_LINE} bytes; nothing after it was read")
            return
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            yield Fault(name, number, "(line)", f"is not valid JSON: {error.msg}")
            return
        if not isinstance(data, dict) or not isinstance(data.get("id"), str):
            yield Fault(name, number, "id", "must be text: every line needs one")
            return
        id = data.pop("id")
        data.setdefault("parent", self._parent)
        data.setdefault("key", make_key(id.rpartition("/")[2]))
        yield from check_node(id, data, name, number)


class CsvFile:
    """A node for the file and one for each row, whose columns are properties."""

    def __init__(self, file: Path, parent: str | None = None, above: str = "") -> None:
        self._file = file
        self._parent = parent  # id of the node that the file is put below
        self._above = above  # its path

    def read(self) -> Iterator[SourceNode | Fault]:
        name, key = str(self._file), make_key(self._file.stem)
        id = f"{self._above}/{key}" if self._above else key
        try:
            # A field with line breaks is one row: the reader counts lines itself.
            with self._file.open(encoding="utf-8-sig", newline="") as stream:
                rows = csv.reader(stream, strict=True)
                columns = next(rows, [])
                fault = find_header_fault(columns)
                if fault is not None:
                    yield Fault(name, 1, "(header)", fault)
                    return
                title = title_from_alias(key)
                data = {"key": key, "parent": self._parent, "type": DATABASE, "title": title}
                yield from check_node(id, {**data, "properties": {"columns": columns}}, name, 1)
                yield from self._read_rows(rows, columns, id)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            yield Fault(name, 1, "(file)", f"cannot be read: {error}")

    def _read_rows(self, rows: Any, columns: list[str], database: str) -> Iterator[SourceNode | Fault]:
        name, line = str(self._file), 2
        for order, row in enumerate(rows):
            if len(row) > len(columns) or any(len(value) > MAX_FIELD for value in row):
                yield Fault(name, line, "(row)", f"has more than {len(columns)} values, or one that is too long")
            elif any(row):
                values = {column: value for column, value in zip(columns, row, strict=False) if value}
                yield from make_row(values, columns, database, order, name, line)
            line = rows.line_num + 1


def find_header_fault(columns: list[str]) -> str | None:
    if not columns or not all(columns) or len(set(columns)) < len(columns):
        return "must name every column once"
    return f"has more than {MAX_COLUMNS} columns" if len(columns) > MAX_COLUMNS else None


def make_row(
    values: dict[str, str], columns: list[str], database: str, order: int, file: str, line: int
) -> Iterator[SourceNode | Fault]:
    """A row as a node: `id` gives its key, `title` or `name` its title, `body` its text."""
    by_name = {column.lower(): column for column in columns}
    titled = next((by_name[name] for name in TITLES if name in by_name), columns[0])
    body = values.pop(by_name.get("body", ""), "")
    named = values.get(by_name.get("id", ""), "")
    key = make_key(named) or f"row-{order + 1}"
    data = {
        "key": key,
        "parent": database,
        "type": ROW,
        "title": values.get(titled) or named or f"Row {order + 1}",
        "order": order,
        "body": body,
        "properties": values,
    }
    yield from check_node(f"{database}/{key}", data, file, line)
