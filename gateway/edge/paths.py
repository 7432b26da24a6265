"""One spelling per path, so that an allow-list cannot be walked around."""

import re

from gateway.errors import InvalidRequest

MODELS = b"/v1/models/"
MANAGEMENT = b"/api/v1/"

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_REFUSED = frozenset(b"/\\\0")


def normalize_path(raw_path: bytes) -> str:
    """The path with single slashes, no dot segments, no slash at its end and no needless escapes.

    Raises InvalidRequest for escapes that other servers read in different ways: slashes, NUL, broken ones.
    """
    if raw_path.startswith(MODELS) and raw_path != MODELS:
        return raw_path.decode(
            "ascii"
        )  # what follows is a model's id, whose slashes come escaped; it is only looked up
    if raw_path.startswith(MANAGEMENT):
        return raw_path.decode("ascii")  # its own table reads the rest: ids of nodes have slashes too
    if b"%" in raw_path:
        raw_path = _ESCAPE.sub(_unescape, raw_path)
    if b"//" in raw_path or b"/." in raw_path or raw_path.endswith(b"/"):
        raw_path = _resolve(raw_path)
    return raw_path.decode("ascii")


def _unescape(escape: re.Match[bytes]) -> bytes:
    digits = escape[1]
    code = -1 if digits is None else int(digits, 16)
    if code < 0 or code in _REFUSED:
        raise InvalidRequest("The path holds an escape that is not accepted.")
    return bytes([code]) if code in _UNRESERVED else escape[0].upper()


def _resolve(path: bytes) -> bytes:
    kept: list[bytes] = []
    for segment in path.split(b"/"):
        if segment == b"..":
            del kept[-1:]
        elif segment not in (b"", b"."):
            kept.append(segment)
    return b"/" + b"/".join(kept)
