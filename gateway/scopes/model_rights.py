"""Whether a key may use the model that a request names."""

import json
import re
from typing import Any

from gateway.domain.principal import Principal
from gateway.errors import InvalidRequest, ModelNotAllowed, quote

MODEL = b'"model"'
ESCAPED_LETTER = re.compile(rb"\\u00(?:6[dDfF45cC])")  # one of the letters of "model"


def require_model(principal: Principal, model: str) -> None:
    """Raise ModelNotAllowed unless the key may use a model."""
    if principal.may_call(model):
        return
    if not model:
        raise ModelNotAllowed("This key may use some models only: name one of them.", param="model")
    raise ModelNotAllowed(f"This key may not use the model {quote(model)}.", param="model")


def require_one_model(principal: Principal, body: bytes) -> None:
    """Raise InvalidRequest if JSON names several models: the upstream might take another one than was checked."""
    if principal.models is not None and names_model_twice(body):
        raise InvalidRequest("`model` must be given only once.", param="model")


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
