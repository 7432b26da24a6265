"""Reads a bundle: one policy file becomes objects as a store keeps them, each with the place it stands at."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.control.bundle import Objects
from gateway.errors import Fault, Faults
from gateway.policies.files import SECTIONS
from gateway.policies.shapes import DocumentShape
from gateway.strict_yaml import Keys, YamlDocument
from gateway.validation import nearest, validate

SHA256 = re.compile(r"[0-9a-f]{64}")
MAX_ID = 512


@dataclass(frozen=True, slots=True)
class Bundle:
    """The objects of a bundle and where they stand in it."""

    document: YamlDocument
    objects: Objects
    places: dict[tuple[str, str], Keys]

    def relocated(self, fault: Fault) -> Fault:
        """A fault of one of the objects, as a fault of the bundle; others stay as they are."""
        kind, _, alias = fault.file.partition("/")
        place = self.places.get((kind, alias))
        if place is None:
            return fault
        # Where a node hangs is said by where it stands; it has no such fields here.
        own = () if kind == "content" and fault.keys[:1] in (("key",), ("parent",), ("id",)) else fault.keys
        return self.document.fault((*place, *own), fault.message)


def read_bundle(document: YamlDocument, known: Mapping[str, str]) -> Bundle:
    """The objects of a bundle; `known` has the ids of nodes by path, for nodes that name none. Raises Faults."""
    reader = _Reader(document)
    for kind, section in reader.mapping(document.data, ()).items():
        if kind not in SECTIONS:
            reader.report((kind,), f"is not a known key{nearest(kind, SECTIONS)}")
        elif kind == "content":
            _take_nodes(reader, section, known)
        else:
            for alias, data in reader.mapping(section, (kind,)).items():
                reader.take(kind, alias, data, (kind, alias))
    if reader.faults:
        raise Faults(reader.faults)
    # In the order of sections, whatever order the bundle has: so it is stored, and so it is shown.
    order = sorted(reader.objects, key=lambda key: SECTIONS.index(key[0]))
    return Bundle(document, {key: reader.objects[key] for key in order}, reader.places)


@dataclass(frozen=True, slots=True)
class _Reader:
    document: YamlDocument
    objects: Objects = field(default_factory=dict)
    places: dict[tuple[str, str], Keys] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def report(self, keys: Keys, message: str) -> None:
        self.faults.append(self.document.fault(keys, message))

    def mapping(self, data: Any, keys: Keys) -> dict[str, Any]:
        """A mapping, empty if there is none."""
        if data is not None and not isinstance(data, dict):
            self.report(keys, "must be a mapping")
        return data if isinstance(data, dict) else {}

    def take(self, kind: str, alias: str, data: Any, keys: Keys) -> None:
        if not isinstance(data, dict):
            self.report(keys, "must be a mapping")
        elif kind == "documents":
            if not SHA256.fullmatch(alias):
                self.report(keys, "a document is named by the SHA-256 of its bytes, in 64 hex digits")
            self.faults.extend(validate(DocumentShape, data, self.document, keys)[1])
        self.objects[kind, alias] = data
        self.places[kind, alias] = keys


@dataclass(frozen=True, slots=True)
class _Written:
    """A node as it stands in the tree."""

    above: str | None  # path of its parent
    path: str
    data: dict[str, Any]
    keys: Keys


def _take_nodes(reader: _Reader, section: Any, known: Mapping[str, str]) -> None:
    """Take a tree apart; a node that gives no id is the one that has its path now, else it is named by its path."""
    written = _walked(reader, section)
    given = {node.path: node.data["id"] for node in written if node.data.get("id") is not None}
    named = {identity for identity in given.values() if isinstance(identity, str)}
    ids: dict[str, str] = {}
    for node in written:
        former = known.get(node.path, node.path)
        identity = given.get(node.path, node.path if former in named else former)
        if not isinstance(identity, str) or not 0 < len(identity) <= MAX_ID:
            reader.report((*node.keys, "id"), f"must be text of 1 to {MAX_ID} characters")
            identity = node.path
        elif ("content", identity) in reader.objects:
            reader.report((*node.keys, "id"), f"{identity!r} is the id of another node already")
        ids[node.path] = identity
        reader.take("content", identity, _flat(reader, node, ids), node.keys)


def _walked(reader: _Reader, section: Any) -> list[_Written]:
    """Every node, parents first; a loop of its own, because depth must not exhaust Python's stack."""
    found: list[_Written] = []
    waiting: list[tuple[str | None, Any, Keys]] = [(None, section, ("content",))]
    while waiting:
        above, children, keys = waiting.pop()
        for key, data in reader.mapping(children, keys).items():
            inner = (*keys, key)
            node = _Written(above, key if above is None else f"{above}/{key}", reader.mapping(data, inner), inner)
            found.append(node)
            waiting.append((node.path, node.data.get("children"), (*inner, "children")))
    return found


def _flat(reader: _Reader, node: _Written, ids: Mapping[str, str]) -> dict[str, Any]:
    for name in ("key", "parent"):
        if name in node.data:
            reader.report((*node.keys, name), "is not a known key; where a node stands says it")
    rest = {name: value for name, value in node.data.items() if name not in ("id", "key", "parent", "children")}
    return {"key": str(node.keys[-1]), "parent": None if node.above is None else ids[node.above], **rest}
