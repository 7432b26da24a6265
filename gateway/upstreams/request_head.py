"""The head of a request to an OpenAI-compatible endpoint, with no header that nobody asked for."""

import re
from typing import Final

from yarl import URL

from gateway.domain.upstream import UpstreamRequest
from gateway.errors import InvalidRequest
from gateway.settings import UpstreamSettings

MAX_OPENINGS: Final = 256  # kept ready; paths beyond that are written anew each time
TARGET: Final = re.compile(r"/[!-\"$-~]*")  # origin form: printable ASCII without a fragment
# Written by us alone: a forwarded one could change the framing, the account or the encoding of the reply.
OURS: Final = frozenset(
    {"accept-encoding", "authorization", "connection", "content-length", "cookie", "expect", "host"}
    | {"transfer-encoding", "upgrade"}
)


class Heads:
    """Writes heads for one endpoint and one account."""

    def __init__(self, url: URL, settings: UpstreamSettings) -> None:
        self._url = url
        self._fixed = fixed_headers(url, settings)
        self._taken = OURS | self._fixed.keys()
        self._passes_bearer = settings.pass_bearer
        self._openings: dict[tuple[str, str], bytes] = {}

    def write(self, request: UpstreamRequest) -> bytes:
        """The head up to and with its empty line; raises InvalidRequest for what HTTP cannot carry."""
        lines = [f"{name}: {value}\r\n" for name, value in request.headers if name.lower() not in self._taken]
        if self._passes_bearer and request.bearer:
            lines.append(f"authorization: Bearer {request.bearer}\r\n")
        if request.body or request.method != "GET":
            lines.append(f"content-length: {len(request.body)}\r\n")
            if "content-type" not in self._fixed and not any(line[:13].lower() == "content-type:" for line in lines):
                lines.append("content-type: application/json\r\n")
        return self._opening(request.method, request.path) + encoded(lines) + b"\r\n"

    def _opening(self, method: str, path: str) -> bytes:
        """The request line and the headers that every call has, kept per path."""
        opening = self._openings.get((method, path))
        if opening is None:
            lines = [f"{method} {target(self._url, path)} HTTP/1.1\r\n"]
            opening = encoded(lines + [f"{name}: {value}\r\n" for name, value in self._fixed.items()])
            if len(self._openings) < MAX_OPENINGS:
                self._openings[method, path] = opening
        return opening


def fixed_headers(url: URL, settings: UpstreamSettings) -> dict[str, str]:
    """What goes out with every call, by lower-case name; a configured header wins over ours."""
    fixed = {"host": url.host_port_subcomponent or "", "accept-encoding": "identity"}
    if settings.api_key and not settings.pass_bearer:
        fixed["authorization"] = f"Bearer {settings.api_key}"
    return fixed | {name.lower(): value for name, value in settings.headers.items()}


def target(url: URL, path: str) -> str:
    """The request target below the base URL; both may bring a query."""
    path, _, query = path.partition("?")
    queries = "&".join(part for part in (url.raw_query_string, query) if part)
    whole = url.raw_path.rstrip("/") + path + (f"?{queries}" if queries else "")
    if not TARGET.fullmatch(whole):
        raise InvalidRequest("The path holds characters that a URL may not hold.")
    return whole


def encoded(lines: list[str]) -> bytes:
    """Lines as they go out; a break inside one would start a header that nobody checked."""
    text = "".join(lines)
    if text.count("\r") != len(lines) or text.count("\n") != len(lines) or "\0" in text:
        raise InvalidRequest("A header holds a line break or a NUL.")
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()  # only a configured header can get here: ASGI's are latin-1 already
