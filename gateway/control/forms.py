"""The form in which every kind of object is stored, whatever way it was written in."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gateway.control.kinds import SHAPES, stored_form
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.shapes import DocumentShape, StoredNodeShape

# What a node need not say.
USUAL: Mapping[str, Any] = {
    "type": "page",
    "body": "",
    "contexts": [],
    "inherit": "nearest",
    "readers": [],
    "links": [],
}


def stored_body(kind: str, alias: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored of valid data: nothing that would hold anyway. Raises ValidationError."""
    if kind in SHAPES:
        return stored_form(kind, alias, data)
    if kind == "content":
        return node_body(StoredNodeShape.model_validate(data).model_dump())
    return DocumentShape.model_validate(data).model_dump()


def node_body(data: Mapping[str, Any]) -> dict[str, Any]:
    """A node as it is stored: where it stands, and what is not usual about it."""
    body: dict[str, Any] = {"key": data["key"], "parent": data["parent"]}
    if data.get("title") and data["title"] != title_from_alias(data["key"]):
        body["title"] = data["title"]
    return body | {name: data[name] for name, usual in USUAL.items() if data.get(name, usual) != usual}


def same(kind: str, alias: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both say the same; what is not valid is not the same as anything."""
    try:
        first, second = stored_body(kind, alias, one), stored_body(kind, alias, other)
    except ValidationError:
        return False
    # The order of resources counts, which mappings do not compare.
    return first == second and list(first.get("resources", ())) == list(second.get("resources", ()))
