"""Reads a bundle: one policy file becomes objects as they are stored, each with its place in the file."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.control.bundle_export import BundleObjects
from gateway.errors import Fault, Faults
from gateway.policies.files import KNOWLEDGE, SECTIONS
from gateway.policies.shapes import DocumentShape
from gateway.strict_yaml import Keys, YamlDocument
from gateway.validation import format_suggestion, validate

SHA256 = re.compile(r"[0-9a-f]{64}")
MAX_ID = 512


class Bundle(msgspec.Struct, frozen=True):
    """The objects of a bundle and their places in it."""

    document: YamlDocument
    objects: BundleObjects
    places: dict[tuple[str, str], Keys]

    def relocate(self, fault: Fault) -> Fault:
        """A fault of one of the objects as a fault of the bundle; other faults are returned unchanged."""
        kind, _, alias = fault.file.partition("/")
        place = self.places.get((kind, alias))
        if place is None:
            return fault
        # The position of a node in the bundle stands for these fields.
        own = () if kind == "content" and fault.keys[:1] in (("key",), ("parent",), ("id",)) else fault.keys
        return self.document.fault((*place, *own), fault.message, fault.code)


def read_bundle(document: YamlDocument, known: Mapping[str, str]) -> Bundle:
    """The objects of a bundle; `known` has node ids by path, for nodes without an id. Raises Faults."""
    reader = _BundleReader(document)
    for kind, section in reader.mapping(document.data, ()).items():
        if kind == KNOWLEDGE:
            continue  # `bundle_knowledge` reads it
        if kind not in SECTIONS:
            reader.report((kind,), f"is not a known key{format_suggestion(kind, (*SECTIONS, KNOWLEDGE))}")
        elif kind == "content":
            _add_nodes(reader, section, known)
        else:
            for alias, data in reader.mapping(section, (kind,)).items():
                reader.add(kind, alias, data, (kind, alias))
    if reader.faults:
        raise Faults(reader.faults)
    # Stored and shown in the order of sections, whatever order the bundle has.
    order = sorted(reader.objects, key=lambda key: SECTIONS.index(key[0]))
    return Bundle(document, {key: reader.objects[key] for key in order}, reader.places)


class _BundleReader(msgspec.Struct, frozen=True):
    document: YamlDocument
    objects: BundleObjects = msgspec.field(default_factory=dict)
    places: dict[tuple[str, str], Keys] = msgspec.field(default_factory=dict)
    faults: list[Fault] = msgspec.field(default_factory=list)

    def report(self, keys: Keys, message: str) -> None:
        self.faults.append(self.document.fault(keys, message))

    def mapping(self, data: Any, keys: Keys) -> dict[str, Any]:
        """A mapping, empty if there is none."""
        if data is not None and not isinstance(data, dict):
            self.report(keys, "must be a mapping")
        return data if isinstance(data, dict) else {}

    def add(self, kind: str, alias: str, data: Any, keys: Keys) -> None:
        if not isinstance(data, dict):
            self.report(keys, "must be a mapping")
        elif kind == "documents":
            if not SHA256.fullmatch(alias):
                self.report(keys, "a document is named by the SHA-256 of its bytes, in 64 hex digits")
            self.faults.extend(validate(DocumentShape, data, self.document, keys)[1])
        self.objects[kind, alias] = data
        self.places[kind, alias] = keys


class _NestedNode(msgspec.Struct, frozen=True):
    """A node in the nested form of a bundle."""

    above: str | None  # path of its parent
    path: str
    data: dict[str, Any]
    keys: Keys


def _add_nodes(reader: _BundleReader, section: Any, known: Mapping[str, str]) -> None:
    """Flatten a tree; a node without an id is the one that has its path now, otherwise its path is its id."""
    nodes = _list_nodes(reader, section)
    given = {node.path: node.data["id"] for node in nodes if node.data.get("id") is not None}
    named = {identity for identity in given.values() if isinstance(identity, str)}
    ids: dict[str, str] = {}
    for node in nodes:
        former = known.get(node.path, node.path)
        identity = given.get(node.path, node.path if former in named else former)
        if not isinstance(identity, str) or not 0 < len(identity) <= MAX_ID:
            reader.report((*node.keys, "id"), f"must be text of 1 to {MAX_ID} characters")
            identity = node.path
        elif ("content", identity) in reader.objects:
            reader.report((*node.keys, "id"), f"{identity!r} is already the id of another node")
        ids[node.path] = identity
        reader.add("content", identity, _flatten(reader, node, ids), node.keys)


def _list_nodes(reader: _BundleReader, section: Any) -> list[_NestedNode]:
    """Every node, parents first; without recursion, because depth must not exhaust Python's stack."""
    nodes: list[_NestedNode] = []
    pending: list[tuple[str | None, Any, Keys]] = [(None, section, ("content",))]
    while pending:
        above, children, keys = pending.pop()
        for key, data in reader.mapping(children, keys).items():
            inner = (*keys, key)
            node = _NestedNode(above, key if above is None else f"{above}/{key}", reader.mapping(data, inner), inner)
            nodes.append(node)
            pending.append((node.path, node.data.get("children"), (*inner, "children")))
    return nodes


def _flatten(reader: _BundleReader, node: _NestedNode, ids: Mapping[str, str]) -> dict[str, Any]:
    for name in ("key", "parent"):
        if name in node.data:
            reader.report((*node.keys, name), "is not a known key; the position of the node determines it")
    rest = {name: value for name, value in node.data.items() if name not in ("id", "key", "parent", "children")}
    return {"key": str(node.keys[-1]), "parent": None if node.above is None else ids[node.above], **rest}
