"""A body as raw fields, in any dialect, or a clear 400."""

from typing import Any

import msgspec
from msgspec import Raw

from gateway.errors import InvalidJson, InvalidRequest

KINDS = {str: "a string", bool: "a boolean", int: "an integer", dict: "an object"}
SCALARS = {kind: msgspec.json.Decoder(kind | None) for kind in KINDS}
MARGIN = 12  # frames; the interpreter's depth limit counts Python calls and JSON nesting together

_fields = msgspec.json.Decoder(dict[str, Raw])
_anything = msgspec.json.Decoder(Raw)


def decode_fields(body: bytes) -> dict[str, Raw]:
    """A JSON object as raw fields. Raw does not check UTF-8, so the whole body is checked first."""
    try:
        body.isascii() or body.decode()
        fields = decode_deep(body, MARGIN)
    except UnicodeDecodeError as fault:
        raise InvalidJson("The body is not valid UTF-8.") from fault
    except RecursionError as fault:
        raise InvalidJson("The body is nested too deeply.") from fault
    except msgspec.DecodeError as fault:
        raise InvalidJson(f"The body is not valid JSON: {fault}.") from fault
    if fields is None:
        raise InvalidRequest("The body must be a JSON object.")
    return fields


def decode_deep(body: bytes, frames: int) -> dict[str, Raw] | None:
    """Decode from deeper in the stack, so that whatever passes here can be decoded again later."""
    if frames:
        return decode_deep(body, frames - 1)
    try:
        return _fields.decode(body)
    except msgspec.ValidationError:
        _anything.decode(body)  # raises DecodeError if it is not JSON
        return None


def decode_scalar(fields: dict[str, Raw], name: str, kind: type) -> Any:
    """The value of a field that must have this type; None if it is absent or null."""
    if name not in fields:
        return None
    try:
        return SCALARS[kind].decode(fields[name])
    except msgspec.MsgspecError as fault:
        raise InvalidRequest(f"`{name}` must be {KINDS[kind]}.", param=name) from fault
