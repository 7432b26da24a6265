"""How objects are written: as a caller sends them, as they are stored and as they are shown in full."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError

from gateway.domain.content import LINK
from gateway.errors import ALIAS_FAULT, Fault, FieldError, InvalidObject
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.node_records import SAID
from gateway.policies.recipe_shapes import RecipeShape
from gateway.policies.shapes import (
    AgentShape,
    ContextShape,
    DocumentShape,
    ProfileShape,
    PromptShape,
    ResourceShape,
    StoredNodeShape,
)
from gateway.strict_yaml import Keys
from gateway.validation import format_pointer

SHAPES: Mapping[str, type[BaseModel]] = {  # of the kinds that are managed in the same way
    "contexts": ContextShape,
    "profiles": ProfileShape,
    "agents": AgentShape,
    "prompts": PromptShape,
    "recipes": RecipeShape,
}
# Shown to readers in addition to the shape; callers may send these fields back, and they are ignored.
SHOWN_FIELDS = frozenset(
    {"id", "source", "file", "shadows", "version", "created_at", "updated_at", "updated_by", "draft"}
)
SHOWN_RESOURCE_FIELDS = frozenset({"id", "alias", "ref", "link"})
NODE_DEFAULTS: Mapping[str, Any] = {
    "type": "page",
    "order": 0,
    "body": "",
    "properties": {},
    "contexts": [],
    "inherit": "nearest",
    "readers": [],
    "links": [],
}
NODE_OUTLINE_DEFAULTS = {name: value for name, value in NODE_DEFAULTS.items() if name not in SAID}


def kind_name(kind: str) -> str:
    """What one object of a kind is called."""
    return "node" if kind == "content" else kind.removesuffix("s")


def make_stored_body(kind: str, alias: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Valid data without defaults, so that an export reads well; raises ValidationError."""
    if kind == "content":
        return make_node_body(StoredNodeShape.model_validate(data).model_dump())
    if kind not in SHAPES:
        return DocumentShape.model_validate(data).model_dump()
    body = _remove_defaults(SHAPES[kind], alias, data)
    if kind == "contexts":
        resources = data.get("resources") or {}
        body["resources"] = {key: _remove_defaults(ResourceShape, key, one) for key, one in resources.items()}
        if not resources:
            del body["resources"]
    return body


def make_node_body(data: Mapping[str, Any]) -> dict[str, Any]:
    """A node as it is stored: its position, and whatever differs from the defaults."""
    body: dict[str, Any] = {"key": data["key"], "parent": data["parent"]}
    if data.get("title") and data["title"] != title_from_alias(data["key"]):
        body["title"] = data["title"]
    body |= {name: data[name] for name, usual in NODE_DEFAULTS.items() if data.get(name, usual) != usual}
    if "links" in body:
        body["links"] = [_shorten_link(link) for link in body["links"]]
    return body


def _shorten_link(link: Any) -> Any:
    """A link as people write it: without the type that links have if they name none."""
    return link["to"] if isinstance(link, dict) and "to" in link and link.get("type", LINK) == LINK else link


def is_same_object(kind: str, alias: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both mean the same; invalid data is not the same as anything."""
    try:
        first, second = make_stored_body(kind, alias, one), make_stored_body(kind, alias, other)
    except ValidationError:
        return False
    # The order of resources counts, but comparing mappings ignores it.
    return first == second and list(first.get("resources", ())) == list(second.get("resources", ()))


def _remove_defaults(shape: type[BaseModel], alias: str, data: Mapping[str, Any]) -> dict[str, Any]:
    body = shape.model_validate(data).model_dump(mode="json", exclude_defaults=True)
    if body.get("name") == title_from_alias(alias):
        del body["name"]
    return body


def format_in_full(kind: str, alias: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """An object with all its defaults; resources as a list in their order."""
    full = _add_defaults(SHAPES[kind], alias, data)
    if kind == "contexts":
        resources = (data.get("resources") or {}).items()
        full["resources"] = [format_resource_in_full(alias, key, one) for key, one in resources]
    return full


def format_resource_in_full(context: str, id: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """A resource of a context with all its defaults."""
    return {"id": id, "ref": f"{context}/{id}", **_add_defaults(ResourceShape, id, data)}


def _add_defaults(shape: type[BaseModel], alias: str, data: Mapping[str, Any]) -> dict[str, Any]:
    try:
        full = shape.model_validate(data).model_dump(mode="json")
    except ValidationError:
        # Stored by another version of the gateway; it must be shown so that it can be fixed.
        fields = shape.model_fields.items()
        full = {name: data.get(name, field.get_default(call_default_factory=True)) for name, field in fields}
    return {**full, "name": full.get("name") or title_from_alias(alias)}


class ParsedBody(msgspec.Struct, frozen=True):
    """An object that was sent, as it would be written in a policy file."""

    data: dict[str, Any]
    listed: tuple[str, ...] | None = None  # ids of the resources, if they were sent as a list
    faults: list[FieldError] = msgspec.field(default_factory=list)  # of the form in which it was sent

    def point(self, fault: Fault) -> FieldError:
        """A fault by its place in the body that was sent."""
        keys = fault.keys
        if not keys and fault.code == ALIAS_FAULT:
            keys = ("alias",)
        if self.listed is not None and keys[:1] == ("resources",) and len(keys) > 1:
            keys = ("resources", self.listed.index(str(keys[1])), *keys[2:])
        return FieldError(format_pointer(keys), fault.message)


def parse_body(kind: str, sent: Any) -> ParsedBody:
    """The body without the fields that are only shown; resources may be sent as a mapping or as a list."""
    data = {name: value for name, value in _require_object(sent).items() if name not in SHOWN_FIELDS}
    data.pop("alias", None)
    if kind != "contexts":
        return ParsedBody(data)
    resources = data.get("resources")
    if isinstance(resources, list):
        return _parse_resource_list(data, resources)
    if isinstance(resources, dict):
        data["resources"] = {id: strip_shown_fields(one) for id, one in resources.items()}
    return ParsedBody(data)


def strip_shown_fields(sent: Any) -> Any:
    """A resource without the fields that are only shown."""
    if not isinstance(sent, dict):
        return sent
    return {name: value for name, value in sent.items() if name not in SHOWN_RESOURCE_FIELDS}


def read_resource_id(sent: Any, keys: Keys = ()) -> str | FieldError:
    """The id with which a resource was sent, or what is wrong with it."""
    if not isinstance(sent, dict):
        return FieldError(format_pointer(keys), "must be an object")
    id = sent.get("id") if sent.get("id") is not None else sent.get("alias")
    if id is None:
        return FieldError(format_pointer((*keys, "id")), "is required")
    return id if isinstance(id, str) else FieldError(format_pointer((*keys, "id")), "must be a string")


def get_alias(sent: Any) -> str:
    """The alias of an object that is to be created; raises InvalidObject."""
    alias = _require_object(sent).get("alias")
    if not isinstance(alias, str):
        message = "is required" if alias is None else "must be a string"
        raise InvalidObject("The object needs an alias.", [FieldError("/alias", message)])
    return alias


def require_same_alias(alias: str, sent: Any) -> None:
    """Raise InvalidObject if the body has another alias: an alias never changes."""
    if isinstance(sent, dict) and sent.get("alias") not in (None, alias):
        message = f"cannot be changed; this is {alias!r}"
        raise InvalidObject("The alias cannot be changed.", [FieldError("/alias", message)])


def read_type(resource: Any) -> str | None:
    """The type that the data of a resource names."""
    said = resource.get("type") if isinstance(resource, dict) else None
    return said if isinstance(said, str) else None


def find_changed_types(parsed: ParsedBody, current: Mapping[str, Any]) -> Iterator[FieldError]:
    """Resources of a context that would get another type: they keep the one they were created with."""
    sent, known = parsed.data.get("resources"), current.get("resources")
    if not isinstance(sent, dict) or not isinstance(known, dict):
        return
    for name, resource in sent.items():
        former, said = read_type(known.get(name)), read_type(resource)
        if former is not None and said is not None and said != former:
            fault = Fault("", 0, "", f"cannot be changed; this is {former!r}", ("resources", name, "type"))
            yield parsed.point(fault)


def keep_resources(parsed: ParsedBody, current: Mapping[str, Any]) -> None:
    """A context that is sent without resources keeps those that it has."""
    if "resources" not in parsed.data and current.get("resources"):
        parsed.data["resources"] = current["resources"]


def _require_object(sent: Any) -> dict[str, Any]:
    if not isinstance(sent, dict):
        raise InvalidObject("The request body must be an object.", [FieldError("", "must be an object")])
    return sent


def _parse_resource_list(data: dict[str, Any], sent: list[Any]) -> ParsedBody:
    resources: dict[str, Any] = {}
    listed: list[str] = []
    faults: list[FieldError] = []
    for position, one in enumerate(sent):
        id = read_resource_id(one, ("resources", position))
        if isinstance(id, FieldError):
            faults.append(id)
            id = ""
        elif id in resources:
            faults.append(FieldError(format_pointer(("resources", position, "id")), f"{id!r} is given twice"))
        else:
            resources[id] = strip_shown_fields(one)
        listed.append(id)
    return ParsedBody({**data, "resources": resources}, tuple(listed), faults)
