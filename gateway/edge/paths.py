"""One spelling per path, so that an allow-list cannot be bypassed."""

import re
from collections.abc import Collection
from urllib.parse import unquote

import msgspec
from httptools import HttpParserInvalidURLError, parse_url
from msgspec.structs import replace

from gateway.errors import InvalidRequest

MODELS = b"/v1/models/"
MANAGEMENT = b"/api/v1/"

CHAT = "/v1/chat/completions"
AZURE_CHAT = re.compile(r"/openai/deployments/([^/]+)/chat/completions")
AZURE_ROOTS = ("/openai/v1/", "/openai/")  # below which Azure has the paths that OpenAI has below /v1/
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


class DirectTarget(msgspec.Struct, frozen=True):
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
    azure = find_azure_target(found)
    if azure is None or azure.path not in paths:
        return None
    return replace(azure, query=drop_azure_version(query))


def drop_azure_version(query: str) -> str:
    return "&".join(one for one in query.split("&") if not one.startswith(AZURE_VERSION))


def find_azure_target(path: str) -> DirectTarget | None:
    """What a path of Azure's means; None if it is none."""
    if (chat := AZURE_CHAT.fullmatch(path)) is not None:
        return DirectTarget(CHAT, model=unquote(chat[1]))
    root = next((root for root in AZURE_ROOTS if path.startswith(root)), None)
    return None if root is None else DirectTarget(f"/v1/{path.removeprefix(root)}")
