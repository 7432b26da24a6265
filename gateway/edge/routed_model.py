"""The model that a passed-through body names, found without decoding the whole body."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from gateway.errors import InvalidJson, InvalidRequest
from gateway.scopes.model_rights import names_model_twice

FORM_FIELD_BYTES = 1024  # longer values are not the name of a model

# A field whose name is encoded, continued or escaped: some servers read it as any other name.
_HIDDEN_NAME = re.compile(rb'(?<!file)name(?:\*|\s*=\s*"[^"\\]*\\)')


class _RoutedBody(msgspec.Struct):
    model: str | None = None


_decoder = msgspec.json.Decoder(_RoutedBody)
_decode_fields: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read_model(content_type: bytes, body: bytes) -> str:
    """The `model` of a JSON or multipart body; empty where there is none."""
    media, _, parameters = content_type.partition(b";")
    media = media.strip().lower()
    if not body:
        return ""
    if media == b"application/json":
        return _json_model(body)
    if media == b"multipart/form-data":
        return _form_field(body, _boundary(parameters), b"model").decode("utf-8", "replace")
    return ""


def set_model(body: bytes, model: str) -> bytes:
    """A JSON body that names this model; anything else stays as it is."""
    try:
        fields = _decode_fields(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body
    return msgspec.json.encode(fields | {"model": model})


def has_one_model(content_type: bytes, body: bytes) -> bool:
    """Whether a body names at most one model, whichever way an upstream reads it."""
    media, _, parameters = content_type.partition(b";")
    if media.strip().lower() == b"application/json":
        return not names_model_twice(body)
    if media.strip().lower() != b"multipart/form-data":
        return True
    heads = [part.partition(b"\r\n\r\n")[0].lower() for part in body.split(b"--" + _boundary(parameters))]
    return sum(b"model" in head or _HIDDEN_NAME.search(head) is not None for head in heads) <= 1


def _json_model(body: bytes) -> str:
    try:
        return _decoder.decode(body).model or ""
    except msgspec.ValidationError:
        raise InvalidRequest("The body must be an object whose `model` is a string.", param="model") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidJson("The body is not valid JSON.") from None


def _boundary(parameters: bytes) -> bytes:
    for parameter in parameters.split(b";"):
        name, _, value = parameter.partition(b"=")
        if name.strip().lower() == b"boundary" and value.strip(b' "'):
            return value.strip().strip(b'"')
    raise InvalidRequest("The multipart body has no boundary.")


def _form_field(body: bytes, boundary: bytes, field: bytes) -> bytes:
    """The first value of a form field; files are skipped by searching, not copied."""
    delimiter = b"\r\n--" + boundary
    at = 0 if body.startswith(delimiter[2:]) else body.find(delimiter)
    head_end = -1
    while at >= 0:
        if head_end < at:  # else a part without a head comes before it: nothing is searched twice
            head_end = body.find(b"\r\n\r\n", at)
        following = body.find(delimiter, at + 1)
        if head_end < 0 or following < 0:
            break
        named = head_end < following and _names(body[at:head_end], field)
        if named and following - head_end <= FORM_FIELD_BYTES:
            return body[head_end + 4 : following].strip()
        at = following
    return b""


def _names(head: bytes, field: bytes) -> bool:
    """Whether a part's head says `name="<field>"`, and no file name."""
    parameters = {parameter.strip() for line in head.split(b"\r\n") for parameter in line.split(b";")}
    return not {b'name="' + field + b'"', b"name=" + field}.isdisjoint(parameters) and b"filename" not in head
