"""What a caller sends for an object becomes what would stand in a policy file, and faults find their way back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.control.kinds import TOLD, TOLD_OF_RESOURCE
from gateway.control.pointers import pointer
from gateway.errors import Fault, FieldError, InvalidObject

Keys = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """An object as it would stand in a policy file."""

    data: dict[str, Any]
    listed: tuple[str, ...] | None = None  # ids of the resources, if they were sent as a list
    faults: list[FieldError] = field(default_factory=list)  # what only the form that was sent can be blamed for

    def point(self, fault: Fault) -> FieldError:
        """Where a fault is in what the caller sent."""
        keys = fault.keys
        if not keys and "alias" in fault.message:
            keys = ("alias",)
        if self.listed is not None and keys[:1] == ("resources",) and len(keys) > 1:
            keys = ("resources", self.listed.index(str(keys[1])), *keys[2:])
        return FieldError(pointer(keys), fault.message)


def received(kind: str, sent: Any) -> ParsedBody:
    """What was sent without what only readers are told; resources may come as a mapping or as a list."""
    if not isinstance(sent, dict):
        raise InvalidObject("The body must be an object.", [FieldError("", "must be an object")])
    data = {name: value for name, value in sent.items() if name not in TOLD and name != "alias"}
    if kind != "contexts":
        return ParsedBody(data)
    resources = data.get("resources")
    if isinstance(resources, list):
        return _from_list(data, resources)
    if isinstance(resources, dict):
        data["resources"] = {id: resource_data(one) for id, one in resources.items()}
    return ParsedBody(data)


def resource_data(sent: Any) -> Any:
    """A resource without what only readers are told."""
    if not isinstance(sent, dict):
        return sent
    return {name: value for name, value in sent.items() if name not in TOLD_OF_RESOURCE}


def resource_id(sent: Any, place: Keys = ()) -> str | FieldError:
    """The id that a resource was sent with, or what is wrong with it."""
    if not isinstance(sent, dict):
        return FieldError(pointer(place), "must be an object")
    id = sent.get("id") if sent.get("id") is not None else sent.get("alias")
    if id is None:
        return FieldError(pointer((*place, "id")), "is required")
    return id if isinstance(id, str) else FieldError(pointer((*place, "id")), "must be a string")


def alias_of(sent: Any) -> str:
    """The alias of an object that is to be made; raises Invalid."""
    if not isinstance(sent, dict):
        raise InvalidObject("The body must be an object.", [FieldError("", "must be an object")])
    alias = sent.get("alias")
    if not isinstance(alias, str):
        message = "is required" if alias is None else "must be a string"
        raise InvalidObject("The object needs an alias.", [FieldError("/alias", message)])
    return alias


def require_alias(alias: str, sent: Any) -> None:
    """Raise Invalid if what was sent has another alias: an alias never changes."""
    if isinstance(sent, dict) and sent.get("alias") not in (None, alias):
        message = f"an alias never changes; this is {alias!r}"
        raise InvalidObject("The alias cannot be changed.", [FieldError("/alias", message)])


def keep_resources(given: ParsedBody, current: Mapping[str, Any]) -> None:
    """A context that is sent without resources keeps those that it has."""
    if "resources" not in given.data and current.get("resources"):
        given.data["resources"] = current["resources"]


def _from_list(data: dict[str, Any], sent: list[Any]) -> ParsedBody:
    resources: dict[str, Any] = {}
    listed: list[str] = []
    faults: list[FieldError] = []
    for place, one in enumerate(sent):
        id = resource_id(one, ("resources", place))
        if isinstance(id, FieldError):
            faults.append(id)
            id = ""
        elif id in resources:
            faults.append(FieldError(pointer(("resources", place, "id")), f"there is a resource {id!r} already"))
        else:
            resources[id] = resource_data(one)
        listed.append(id)
    return ParsedBody({**data, "resources": resources}, tuple(listed), faults)
