"""One spelling per path, so that an allow-list cannot be bypassed."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote

from httptools import HttpParserInvalidURLError, parse_url

from gateway.errors import InvalidRequest

MODELS = b"/v1/models/"
MANAGEMENT = b"/api/v1/"

CHAT = "/v1/chat/completions"
AZURE_CHAT = re.compile(r"/openai/deployments/([^/]+)/chat/completions")
AZURE_VERSION = "api-version="  # of Azure's own API: the base_url of an upstream names the one that it speaks

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


@dataclass(frozen=True, slots=True)
class DirectTarget:
    """What a request target says: the path of a direct endpoint, and more."""

    path: str
    query: str = ""
    model: str | None = None  # the deployment in a path of Azure's


def find_target(url: bytes, paths: Collection[str]) -> DirectTarget | None:
    """What a request target says if it means one of `paths`, however it is written; None if it means something else."""
    try:
        parsed = parse_url(url)
        found = normalize_path(parsed.path or b"")
    except (HttpParserInvalidURLError, InvalidRequest, UnicodeDecodeError):
        return None  # the app says what is wrong with it
    query = (parsed.query or b"").decode("latin-1")
    if found in paths:
        return DirectTarget(found, query)
    azure = AZURE_CHAT.fullmatch(found) if CHAT in paths else None
    if azure is None:
        return None
    kept = (one for one in query.split("&") if not one.startswith(AZURE_VERSION))
    return DirectTarget(CHAT, "&".join(kept), unquote(azure[1]))
