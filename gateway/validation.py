"""Checks data against a pydantic model and tells every fault with file, line and path."""

import difflib
import types
import typing
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.errors import Fault
from gateway.strict_yaml import Keys, YamlDocument

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], data: Any, document: YamlDocument, keys: Keys) -> tuple[Model | None, list[Fault]]:
    """The data as a model, or None and everything that is wrong with it."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, [_fault(model, detail, document, keys) for detail in error.errors(include_url=False)]


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a misspelt word, ready to be appended to a sentence; empty when nothing is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _fault(model: type[BaseModel], detail: ErrorDetails, document: YamlDocument, keys: Keys) -> Fault:
    # pydantic marks a fault of a mapping's key by a last element of its own.
    loc = tuple(part for part in detail["loc"] if part != "[key]")
    return document.fault((*keys, *loc), _message(model, detail, loc))


def _message(model: type[BaseModel], detail: ErrorDetails, loc: Keys) -> str:
    match detail["type"]:
        case "extra_forbidden":
            return f"is not a known key{nearest(str(loc[-1]), _known_keys(model, loc[:-1]))}"
        case "missing":
            return "is required"
        case "model_type" | "dict_type" | "model_attributes_type":
            return "must be a mapping"
        case "value_error":
            return detail["msg"].removeprefix("Value error, ")
        case _:
            return detail["msg"][0].lower() + detail["msg"][1:]


def _known_keys(model: type[BaseModel], loc: Keys) -> list[str]:
    """The keys of the model that stands at `loc` inside `model`, as far as its annotations tell."""
    found: Any = model
    for key in loc:
        found = _step(found, key)
    return list(found.model_fields) if _is_model(found) else []


def _step(annotation: Any, key: str | int) -> Any:
    if typing.get_origin(annotation) in (list, dict):
        inner = typing.get_args(annotation)[-1]
    else:
        field = annotation.model_fields.get(str(key)) if _is_model(annotation) else None
        inner = field.annotation if field else None
    if typing.get_origin(inner) in (types.UnionType, typing.Union):
        inner = next((part for part in typing.get_args(inner) if part is not type(None)), None)
    return inner


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
