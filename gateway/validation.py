"""Validates data against a pydantic model; every fault names its file, line and path."""

import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.errors import Fault, find_similar
from gateway.strict_yaml import Keys, YamlDocument

MOST_SUGGESTIONS = 20  # of one set of faults: finding them takes longer than anything else

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], data: Any, document: YamlDocument, keys: Keys) -> tuple[Model | None, list[Fault]]:
    """The data as a model, or None with every fault that was found."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        hinted = [_make_fault(model, detail, document, keys, True) for detail in details[:MOST_SUGGESTIONS]]
        return None, hinted + [_make_fault(model, one, document, keys, False) for one in details[MOST_SUGGESTIONS:]]


def format_suggestion(word: str, known: Iterable[str]) -> str:
    """A hint for a misspelt word, to be appended to a sentence; empty if no known word is similar."""
    near = find_similar(word, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def format_pointer(keys: Sequence[str | int]) -> str:
    """The path to a value as a JSON pointer (RFC 6901); empty for the whole document."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def _make_fault(
    model: type[BaseModel], detail: ErrorDetails, document: YamlDocument, keys: Keys, suggests: bool
) -> Fault:
    # pydantic marks a fault in a mapping's key with an extra last element.
    loc = tuple(part for part in detail["loc"] if part != "[key]")
    return document.fault((*keys, *loc), describe_detail(model, detail, loc, suggests))


def describe_detail(model: type[BaseModel], detail: ErrorDetails, loc: Keys, suggests: bool = True) -> str:
    """What is wrong at `loc`, in words for whoever wrote it."""
    match detail["type"]:
        case "extra_forbidden":
            known = _known_keys(model, loc[:-1]) if suggests else []
            return f"is not a known key{format_suggestion(str(loc[-1]), known)}"
        case "missing":
            return "is required"
        case "model_type" | "dict_type" | "model_attributes_type":
            return "must be a mapping"
        case "value_error":
            return detail["msg"].removeprefix("Value error, ")
        case _:
            return detail["msg"][0].lower() + detail["msg"][1:]


def _known_keys(model: type[BaseModel], loc: Keys) -> list[str]:
    """The keys of the model at `loc` inside `model`, as far as its annotations tell."""
    inner: Any = model
    for key in loc:
        inner = _step_into(inner, key)
    return list(inner.model_fields) if _is_model(inner) else []


def _step_into(annotation: Any, key: str | int) -> Any:
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
