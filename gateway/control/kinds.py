"""The kinds of objects that are managed alike: their shapes, their form in the store and their form for readers."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from gateway.policies.context_compiler import title_from_alias
from gateway.policies.shapes import AgentShape, ContextShape, ProfileShape, PromptShape, ResourceShape

SHAPES: Mapping[str, type[BaseModel]] = {
    "contexts": ContextShape,
    "profiles": ProfileShape,
    "agents": AgentShape,
    "prompts": PromptShape,
}
# What a reader is told besides the shape; it may be sent back and is not looked at.
TOLD = frozenset({"id", "source", "file", "version", "created_at", "updated_at", "updated_by", "draft"})
TOLD_OF_RESOURCE = frozenset({"id", "alias", "ref", "link"})


def noun(kind: str) -> str:
    """What one object of a kind is called."""
    return "node" if kind == "content" else kind.removesuffix("s")


def stored_form(kind: str, alias: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored of valid data: nothing that would hold anyway, so that an export reads well."""
    body = _without_defaults(SHAPES[kind], alias, data)
    if kind == "contexts":
        resources = data.get("resources") or {}
        body["resources"] = {key: _without_defaults(ResourceShape, key, one) for key, one in resources.items()}
        if not resources:
            del body["resources"]
    return body


def full_form(kind: str, alias: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that holds for an object, what it does not say included; resources as a list in their order."""
    full = _with_defaults(SHAPES[kind], alias, data)
    if kind == "contexts":
        full["resources"] = [full_resource(alias, key, one) for key, one in (data.get("resources") or {}).items()]
    return full


def full_resource(context: str, id: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that holds for a resource of a context."""
    return {"id": id, "ref": f"{context}/{id}", **_with_defaults(ResourceShape, id, data)}


def _without_defaults(shape: type[BaseModel], alias: str, data: Mapping[str, Any]) -> dict[str, Any]:
    body = shape.model_validate(data).model_dump(mode="json", exclude_defaults=True)
    if body.get("name") == title_from_alias(alias):
        del body["name"]
    return body


def _with_defaults(shape: type[BaseModel], alias: str, data: Mapping[str, Any]) -> dict[str, Any]:
    try:
        full = shape.model_validate(data).model_dump(mode="json")
    except ValidationError:
        # Stored by another version of the gateway; it must be seen to be mended.
        full = {name: data.get(name, field.get_default(call_default_factory=True)) for name, field in _fields(shape)}
    return {**full, "name": full.get("name") or title_from_alias(alias)}


def _fields(shape: type[BaseModel]) -> Any:
    return shape.model_fields.items()
