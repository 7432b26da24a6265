"""Whether a key may use the model that a request names."""

import json
import re
from collections.abc import Iterator
from typing import Any

from gateway.domain.principal import Principal
from gateway.errors import InvalidJson, InvalidRequest, ModelNotAllowed, quote

MODEL = b'"model"'
ESCAPED_LETTER = re.compile(rb"\\u00(?:6[dDfF45cC])")  # one of the letters of "model"
FURTHER = frozenset({"fallbacks", "models", "tools"})  # fields that name models besides the request's own
_MAY_NAME_FURTHER = re.compile(rb'"(?:fallbacks|models)"|\\u00[67]')


def require_model(principal: Principal, model: str) -> None:
    """Raise ModelNotAllowed unless the key may use a model."""
    if principal.may_call(model):
        return
    if not model:
        raise ModelNotAllowed("This key may use some models only: name one of them.", param="model")
    raise ModelNotAllowed(f"This key may not use the model {quote(model)}.", param="model")


def require_one_model(principal: Principal, body: bytes) -> None:
    """Raise InvalidRequest if JSON names several models: the upstream might take another one than was checked.

    Raises ModelNotAllowed for one to fall back to, or for a tool to ask, that the key may not use.
    """
    if principal.models is None:
        return
    if names_model_twice(body):
        raise InvalidRequest("`model` must be given only once.", param="model")
    for field, model in list_further_models(body):
        if not principal.may_call(model):
            raise ModelNotAllowed(f"This key may not use the model {quote(model)}.", param=field)


def list_further_models(body: bytes) -> Iterator[tuple[str, str]]:
    """The models that JSON names besides its own, each with the field that does; parsed only where that is possible."""
    if body.count(MODEL) < 2 and _MAY_NAME_FURTHER.search(body) is None:
        return
    try:
        whole = json.loads(body, object_pairs_hook=tuple)  # objects are tuples: repeated fields are all there
    except (ValueError, RecursionError):
        raise InvalidJson("The body is not valid JSON, or nested too deeply.") from None
    for field, given in whole if isinstance(whole, tuple) else ():
        for one in (given if isinstance(given, list) else [given]) if field in FURTHER else ():
            named = [inner for name, inner in one if name == "model"] if isinstance(one, tuple) else [one]
            yield from ((field, model) for model in named if isinstance(model, str))


def names_model_twice(body: bytes) -> bool:
    """Whether a JSON object has several fields `model`; parsed only where that is possible."""
    if body.count(MODEL) < 2 and ESCAPED_LETTER.search(body) is None:
        return False
    outermost: list[str] = []

    def keep_names(pairs: list[tuple[str, Any]]) -> None:
        outermost[:] = [name for name, _ in pairs]  # the outermost object is complete last

    try:
        json.loads(body, object_pairs_hook=keep_names)
    except (ValueError, RecursionError):
        return True
    return outermost.count("model") > 1
