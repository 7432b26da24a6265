"""A folder of Markdown files: every folder and every file is a node, front matter says the rest."""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any, NamedTuple

from gateway.control.sources.source_node import SourceNode, check_node, make_key
from gateway.errors import Fault, Faults
from gateway.policies.content_tree import MAX_DEPTH, TOO_DEEP
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.shapes import NodeShape
from gateway.strict_yaml import parse_yaml

SUFFIXES = (".md", ".markdown")
INDEXES = ("index", "readme")  # the file that says what its folder says
MAX_BYTES = 8 * 1024 * 1024  # of one file
MAX_LINKS = 200  # of one text
FENCE = b"---"
FIELDS = frozenset(NodeShape.model_fields) - {"body", "children"}

_HEADING = re.compile(r"^# +(\S[^\n]*)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s#]{1,500})")


class FrontMatter(NamedTuple):
    """What stands above a text, and the text."""

    data: dict[str, Any]
    text: str


class FolderEntry(NamedTuple):
    """A file or folder that becomes a node."""

    key: str
    path: Path
    file: Path | None  # with its text; None: a folder without one
    is_folder: bool


class MarkdownFolder:
    """The nodes of a folder; their ids are their paths in the tree, unless front matter says otherwise."""

    def __init__(self, folder: Path, parent: str | None = None, above: str = "") -> None:
        self._folder = folder
        self._parent = parent  # id of the node that everything is put below
        self._above = above  # its path

    def read(self) -> Iterator[SourceNode | Fault]:
        yield from self._read_folder(self._folder, self._parent, PurePosixPath(self._above))

    def _read_folder(self, folder: Path, parent: str | None, path: PurePosixPath) -> Iterator[SourceNode | Fault]:
        if len(path.parts) >= MAX_DEPTH:
            yield Fault(str(folder), 1, "(folder)", TOO_DEEP)
            return
        taken: dict[str, str] = {}
        for entry in list_entries(folder):
            if isinstance(entry, Fault):
                yield entry
            elif entry.key in taken:
                message = f"would have the same key as {taken[entry.key]!r}: {entry.key!r}"
                yield Fault(str(entry.path), 1, "(file)", message)
            else:
                taken[entry.key] = entry.path.name
                made = list(make_node(entry, parent, path / entry.key))
                yield from made
                node = next((one for one in made if isinstance(one, SourceNode)), None)
                if entry.is_folder and node is not None:
                    yield from self._read_folder(entry.path, node.id, path / entry.key)


def list_entries(folder: Path) -> Iterator[FolderEntry | Fault]:
    """What of a folder becomes nodes, by name; hidden files, links to folders and other formats are left alone."""
    try:
        found = sorted(os.scandir(folder), key=lambda one: one.name)
    except OSError as error:
        yield Fault(str(folder), 1, "(folder)", f"cannot be read: {error.strerror}")
        return
    for entry in found:
        path = Path(entry.path)
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield FolderEntry(make_key(entry.name), path, find_index(path), True)
        elif is_text(path) and path.stem.lower() not in INDEXES:
            yield FolderEntry(make_key(path.stem), path, path, False)


def is_text(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def find_index(folder: Path) -> Path | None:
    """The file that says what a folder says."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None  # reported when the folder is read
    found = (Path(folder, name) for name in names if is_text(Path(name)))
    return next((path for path in found if path.stem.lower() in INDEXES), None)


def make_node(entry: FolderEntry, parent: str | None, path: PurePosixPath) -> Iterator[SourceNode | Fault]:
    """The node of a file, or of a folder with or without a text."""
    front = FrontMatter({}, "")
    if entry.file is not None:
        try:
            front = read_front_matter(entry.file)
        except Faults as faults:
            yield from faults.faults
            return
    fields = {name: value for name, value in front.data.items() if name in FIELDS}
    others = {name: value for name, value in front.data.items() if name not in FIELDS}
    if isinstance(fields.get("properties", {}), dict):
        fields["properties"] = {**others, **fields.get("properties", {})}
    heading = _HEADING.search(front.text[:4000])
    fields.setdefault("title", heading.group(1).strip() if heading else title_from_alias(entry.key))
    fields["links"] = [*to_list(fields.get("links")), *list_linked(front.text, path, is_folder=entry.is_folder)]
    id = str(fields.pop("id", None) or path)
    data = {**fields, "key": entry.key, "parent": parent, "body": front.text}
    yield from check_node(id, data, str(entry.file or entry.path), 1)


def to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def read_front_matter(file: Path) -> FrontMatter:
    """What a file says; raises Faults."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise Faults([Fault(str(file), 1, "(file)", f"cannot be read: {error.strerror}")]) from error
    if len(raw) > MAX_BYTES:
        raise Faults([Fault(str(file), 1, "(file)", f"is larger than {MAX_BYTES} bytes")])
    above, text = split_front_matter(raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n"))
    try:
        body = text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise Faults([Fault(str(file), line, "(file)", "is not UTF-8")]) from error
    # A blank first line in place of the fence keeps the numbers of the lines.
    data = parse_yaml(b"\n" + above, str(file)).data if above.strip() else {}
    if not isinstance(data, dict):
        raise Faults([Fault(str(file), 1, "(front matter)", "must be a mapping")])
    return FrontMatter(data, body.strip())


def split_front_matter(raw: bytes) -> tuple[bytes, bytes]:
    """What stands between two fences at the beginning, and the rest."""
    if not raw.startswith(FENCE + b"\n"):
        return b"", raw
    end = raw.find(b"\n" + FENCE + b"\n", len(FENCE))
    if end < 0:
        closed = raw.rstrip().endswith(b"\n" + FENCE)
        return (raw.rstrip()[len(FENCE) + 1 : -len(FENCE)], b"") if closed else (b"", raw)
    return raw[len(FENCE) + 1 : end + 1], raw[end + len(FENCE) + 2 :]


def list_linked(text: str, path: PurePosixPath, *, is_folder: bool) -> list[str]:
    """The nodes of other files that a text links to, each once."""
    base = path if is_folder else path.parent
    found: dict[str, None] = {}
    for match in _LINK.finditer(text):
        target = PurePosixPath(match.group(1))
        if "://" in match.group(1) or target.suffix.lower() not in SUFFIXES:
            continue
        names = normpath(str(base / target)).split("/")
        keys = [*map(make_key, names[:-1]), make_key(PurePosixPath(names[-1]).stem)]
        found["/".join(keys[:-1] if keys[-1] in INDEXES else keys)] = None
        if len(found) == MAX_LINKS:
            break
    return [name for name in found if name and not name.startswith("..")]
