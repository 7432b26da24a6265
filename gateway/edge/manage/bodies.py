"""Query strings and bodies become validated models, or a 422 that points at everything that is wrong."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel

from gateway.control.pointers import pointer
from gateway.errors import FieldError, InvalidJson, InvalidObject, InvalidRequest, UnsupportedMediaType
from gateway.strict_yaml import YamlDocument
from gateway.validation import validate

MAX_DEPTH = 64  # as policy files have it; orjson cannot write what is nested deeper than 254
TOO_LARGE = 2**63  # a whole number from here on, written as 1e30 too, could be read but not written again
MAX_PARAMETERS = 50

Model = TypeVar("Model", bound=BaseModel)


def decode_json(raw: bytes) -> Any:
    """Any JSON value of a bounded depth."""
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"The body is not valid JSON: {error}.") from error
    level = [data]
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(one, int | float) and abs(one) >= TOO_LARGE for one in level):
            raise InvalidJson("The body holds a number that is too large.")
        level = [inner for one in level if isinstance(one, dict | list) for inner in _inside(one)]
        if not level:
            return data
    raise InvalidJson(f"The body is nested deeper than {MAX_DEPTH} levels.")


def parse_body(model: type[Model], raw: bytes) -> Model:
    """The body as the route's model; raises InvalidJson or Invalid."""
    shape, faults = validate(model, decode_json(raw), YamlDocument("body", None, {}), ())
    if shape is None:
        raise InvalidObject(
            "The body is not what it has to be.", [FieldError(pointer(one.keys), one.message) for one in faults]
        )
    return shape


def parse_query(model: type[Model], raw: bytes) -> Model:
    """The query string as the route's model; a parameter that is unknown or given twice is a fault."""
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise InvalidRequest("The query string cannot be read.") from error
    given = dict(pairs)
    twice = sorted({name for name in given if sum(name == other for other, _ in pairs) > 1})
    shape, faults = validate(model, given, YamlDocument("query", None, {}), ())
    wrong = [FieldError(None, "is given more than once", name) for name in twice]
    wrong += [FieldError(None, one.message, str(one.keys[0]) if one.keys else "") for one in faults]
    if shape is None or wrong:
        raise InvalidObject("A query parameter is not what it has to be.", wrong)
    return shape


def require_media(headers: Mapping[bytes, bytes], types: Sequence[str]) -> str:
    """The media type of a body that need not be JSON, which has to be one of `types`."""
    given = headers.get(b"content-type", b"").split(b";")[0].strip().lower().decode("latin-1")
    if given not in types:
        raise UnsupportedMediaType(f"Send the body with one of these as its Content-Type: {', '.join(types)}.")
    return given


def _inside(value: dict[str, Any] | list[Any]) -> Sequence[Any]:
    return list(value.values()) if isinstance(value, dict) else value
