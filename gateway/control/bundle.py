"""A bundle: all objects of a workspace in the form of one policy file, from which they can be made again."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gateway.control.forms import node_body
from gateway.errors import Conflict
from gateway.extraction import formats
from gateway.policies.files import SECTIONS, PolicyEntry

Objects = dict[tuple[str, str], Any]  # (kind, alias) → data as a store keeps it


class Files(Protocol):
    """The documents that policy files name."""

    def text(self, path: Path) -> str:
        """The text of a document; raises ValueError."""
        ...


@dataclass(frozen=True, slots=True)
class Exporter:
    """Turns what a workspace has into objects that need no files, and those into a bundle."""

    files: Files
    read: dict[Path, tuple[str, dict[str, Any]]] = field(default_factory=dict)  # documents by file, read once

    def objects(self, sections: Mapping[str, Mapping[str, PolicyEntry]], *, stored: bool = False) -> Objects:
        """Every object, or only what is stored, together with the nodes above it. Reads files: not on the loop."""
        kept = {kind: _wanted(kind, sections[kind], stored) for kind in SECTIONS}
        made: Objects = {}
        for kind in SECTIONS:
            for entry in kept[kind]:
                made[kind, entry.alias] = self._context(entry) if kind == "contexts" else entry.data
        for sha256, document in self.read.values():
            made.setdefault(("documents", sha256), document)
        return made

    def _context(self, entry: PolicyEntry) -> Any:
        """A context whose documents are known by their hash instead of a path."""
        resources = entry.data.get("resources")
        if entry.record is not None or not isinstance(resources, dict):
            return entry.data
        return entry.data | {"resources": {name: self._resource(one, entry) for name, one in resources.items()}}

    def _resource(self, resource: dict[str, Any], entry: PolicyEntry) -> dict[str, Any]:
        data = resource.get("data")
        if resource.get("type") != "document" or not isinstance(data, dict) or data.get("path") is None:
            return resource
        path = Path(entry.place.document.name).parent / data["path"]
        if path not in self.read:
            self.read[path] = self._document(path)
        return resource | {"data": {"sha256": self.read[path][0]}}

    def _document(self, path: Path) -> tuple[str, dict[str, Any]]:
        try:
            text, content = self.files.text(path), path.read_bytes()
        except (ValueError, OSError) as error:
            raise Conflict(f"The document {path.name} of the policy files cannot be read now: {error}") from error
        body = {"name": path.name, "media_type": _media(path.name, content), "size": len(content), "text": text}
        return hashlib.sha256(content).hexdigest(), body


def _media(name: str, content: bytes) -> str:
    if name.lower().endswith((".md", ".markdown")):
        return "text/markdown"
    form = formats.by_name(name) or formats.by_content(content)
    return next(media for media, known in formats.MEDIA_TYPES.items() if known is form)


def bundle_of(objects: Objects) -> dict[str, Any]:
    """The objects as one policy file, nodes below their parents, empty sections left out."""
    bundle: dict[str, Any] = {kind: {} for kind in SECTIONS}
    for (kind, alias), data in objects.items():
        if kind != "content":
            bundle[kind][alias] = data
    bundle["content"] = _nested({alias: data for (kind, alias), data in objects.items() if kind == "content"})
    return {kind: section for kind, section in bundle.items() if section}


def _wanted(kind: str, entries: Mapping[str, PolicyEntry], stored: bool) -> Iterable[PolicyEntry]:
    if not stored:
        return entries.values()
    names = {alias for alias, entry in entries.items() if entry.record is not None}
    if kind == "content":
        for alias in tuple(names):
            above = entries[alias].data["parent"]
            while above is not None and above not in names:
                names.add(above)
                above = entries[above].data["parent"]
    return [entry for alias, entry in entries.items() if alias in names]


def _nested(nodes: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Flat nodes as a tree; each comes after its parent."""
    roots: dict[str, Any] = {}
    made: dict[str, tuple[str, dict[str, Any]]] = {}  # id → path, node
    for identity, data in nodes.items():
        above, around = ("", roots) if data["parent"] is None else _inside(*made[data["parent"]])
        path = above + data["key"]
        around[data["key"]] = node = _written(identity, data, path)
        made[identity] = path, node
    return roots


def _inside(path: str, node: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return path + "/", node.setdefault("children", {})


def _written(identity: str, data: dict[str, Any], path: str) -> dict[str, Any]:
    """A node as a person would write it; where it stands says its key and its parent."""
    body = {name: value for name, value in node_body(data).items() if name not in ("key", "parent")}
    return body if identity == path else {"id": identity, **body}
