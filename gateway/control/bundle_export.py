"""Exports a bundle: all objects of a workspace in the form of one policy file, from which they can be restored."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gateway.control.documents import detect_media_type
from gateway.control.object_bodies import make_node_body
from gateway.errors import Conflict
from gateway.extraction.extract import DocumentCache
from gateway.policies.files import KNOWLEDGE, SECTIONS, PolicyEntry

BundleObjects = dict[tuple[str, str], Any]  # (kind, alias) → data as it is stored
NOTHING: Mapping[str, Any] = {}


class BundleExporter(msgspec.Struct, frozen=True):
    """Collects the objects of a workspace in a form that needs no files."""

    files: DocumentCache
    documents: dict[Path, tuple[str, dict[str, Any]]] = msgspec.field(default_factory=dict)  # path → SHA-256, body

    def objects(self, sections: Mapping[str, Mapping[str, PolicyEntry]], *, stored: bool = False) -> BundleObjects:
        """Every object, or only the stored ones with the nodes above them. Reads files: not on the event loop."""
        objects: BundleObjects = {}
        for kind in SECTIONS:
            for entry in _select_stored(kind, sections[kind]) if stored else sections[kind].values():
                objects[kind, entry.alias] = self._export_context(entry) if kind == "contexts" else entry.data
        for sha256, document in self.documents.values():
            objects.setdefault(("documents", sha256), document)
        return objects

    def _export_context(self, entry: PolicyEntry) -> Any:
        """A context that refers to its documents by hash instead of by path."""
        resources = entry.data.get("resources")
        if entry.record is not None or not isinstance(resources, dict):
            return entry.data
        return entry.data | {"resources": {name: self._export_resource(one, entry) for name, one in resources.items()}}

    def _export_resource(self, resource: dict[str, Any], entry: PolicyEntry) -> dict[str, Any]:
        data = resource.get("data")
        if resource.get("type") != "document" or not isinstance(data, dict) or data.get("path") is None:
            return resource
        path = Path(entry.location.document.name).parent / data["path"]
        if path not in self.documents:
            self.documents[path] = self._read_document(path)
        return resource | {"data": {"sha256": self.documents[path][0]}}

    def _read_document(self, path: Path) -> tuple[str, dict[str, Any]]:
        try:
            text, content = self.files.extract(path), path.read_bytes()
        except (ValueError, OSError) as error:
            raise Conflict(f"The document {path.name} of the policy files cannot be read: {error}") from error
        body = {
            "name": path.name,
            "media_type": detect_media_type(path.name, content),
            "size": len(content),
            "text": text,
        }
        return hashlib.sha256(content).hexdigest(), body


def build_bundle(objects: BundleObjects, knowledge: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """The objects, and the section `knowledge`, as one policy file: nodes below their parents, no empty sections."""
    bundle: dict[str, Any] = {kind: {} for kind in SECTIONS}
    for (kind, alias), data in objects.items():
        if kind != "content":
            bundle[kind][alias] = data
    bundle["content"] = _nest({alias: data for (kind, alias), data in objects.items() if kind == "content"})
    bundle[KNOWLEDGE] = dict(knowledge)
    return {kind: section for kind, section in bundle.items() if section}


def _select_stored(kind: str, entries: Mapping[str, PolicyEntry]) -> Iterable[PolicyEntry]:
    """The stored entries; nodes together with their ancestors."""
    names = {alias for alias, entry in entries.items() if entry.record is not None}
    if kind == "content":
        for alias in tuple(names):
            above = entries[alias].data["parent"]
            while above is not None and above not in names:
                names.add(above)
                above = entries[above].data["parent"]
    return [entry for alias, entry in entries.items() if alias in names]


def _nest(nodes: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Flat nodes as a tree; parents come before their children in `nodes`."""
    roots: dict[str, Any] = {}
    paths: dict[str, str] = {}  # by id
    nested: dict[str, dict[str, Any]] = {}  # by id
    for identity, data in nodes.items():
        key, parent = data["key"], data["parent"]
        siblings = roots if parent is None else nested[parent].setdefault("children", {})
        paths[identity] = key if parent is None else f"{paths[parent]}/{key}"
        siblings[key] = nested[identity] = _format_node(identity, data, paths[identity])
    return roots


def _format_node(identity: str, data: dict[str, Any], path: str) -> dict[str, Any]:
    """A node as a person would write it; its position shows its key and its parent."""
    body = {name: value for name, value in make_node_body(data).items() if name not in ("key", "parent")}
    return body if identity == path else {"id": identity, **body}
