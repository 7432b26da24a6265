"""One spelling per path, so that an allow-list cannot be bypassed."""

import re

from httptools import HttpParserInvalidURLError, parse_url

from gateway.errors import InvalidRequest

MODELS = b"/v1/models/"
MANAGEMENT = b"/api/v1/"

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_REFUSED = frozenset(b"/\\\0")


def normalize_path(raw_path: bytes) -> str:
    """The path with single slashes, no dot segments, no trailing slash and no unnecessary escapes.

    Raises InvalidRequest for escapes that servers interpret differently: slashes, NUL, malformed ones.
    """
    # What follows is the id of a model or, below the management API, perhaps of a node: its slashes are escaped, and it
    # is only looked up.
    if raw_path.startswith(MANAGEMENT) or (raw_path.startswith(MODELS) and raw_path != MODELS):
        return raw_path.decode("ascii")
    if b"%" in raw_path:
        raw_path = _ESCAPE.sub(_unescape, raw_path)
    if b"//" in raw_path or b"/." in raw_path or raw_path.endswith(b"/"):
        raw_path = _resolve(raw_path)
    return raw_path.decode("ascii")


def _unescape(escape: re.Match[bytes]) -> bytes:
    digits = escape[1]
    code = -1 if digits is None else int(digits, 16)
    if code < 0 or code in _REFUSED:
        raise InvalidRequest("The path contains an escape sequence that is not allowed.")
    return bytes([code]) if code in _UNRESERVED else escape[0].upper()


def _resolve(path: bytes) -> bytes:
    kept: list[bytes] = []
    for segment in path.split(b"/"):
        if segment == b"..":
            del kept[-1:]
        elif segment not in (b"", b"."):
            kept.append(segment)
    return b"/" + b"/".join(kept)


def leads_to(url: bytes, path: str) -> bool:
    """Whether a request target means `path`, however it is written."""
    try:
        target: bytes | None = parse_url(url).path
        return target is not None and normalize_path(target) == path
    except (HttpParserInvalidURLError, InvalidRequest, UnicodeDecodeError):
        return False  # the app says what is wrong with it
