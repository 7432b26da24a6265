"""Calls of HTTP tools: one request to an endpoint that the guard admits; redirects are not followed."""

import re
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
import orjson

from gateway.domain.tool import ToolEndpoint, ToolOutcome
from gateway.extraction.formats import normalize_charset
from gateway.links.fetch import open_session
from gateway.links.guard import LinkGuard, LinkRefused

CHUNK_BYTES = 64 * 1024
BYTES_PER_CHARACTER = 4  # at most, in UTF-8
TEXTUAL = ("text/", "application/json", "application/xml", "application/x-ndjson", "application/yaml")
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_-]{1,64})\}")
BODILESS = frozenset({"GET", "DELETE"})  # methods whose arguments go into the query


class BadArguments(ValueError):
    """Arguments that an endpoint cannot be called with, in words for the model."""


class HttpRequest(msgspec.Struct, frozen=True):
    """One request to an endpoint."""

    method: str
    url: str
    query: dict[str, str]
    body: bytes | None
    headers: dict[str, str]


def build_request(endpoint: ToolEndpoint, arguments: dict[str, Any]) -> HttpRequest:
    """The request of a call; raises BadArguments if one that the URL needs is missing or cannot be written."""
    left = dict(arguments)

    def fill(found: re.Match[str]) -> str:
        if found[1] not in left:
            raise BadArguments(f"{found[1]} is missing")
        value = quote(format_plain(found[1], left.pop(found[1])), safe="")
        if value in ("", ".", ".."):  # another path, or another endpoint altogether
            raise BadArguments(f"{found[1]} cannot be {value!r}")
        return value

    url = PLACEHOLDER.sub(fill, endpoint.url)
    headers = {"User-Agent": "context-gateway", "Accept-Encoding": "identity", **dict(endpoint.headers)}
    if endpoint.method in BODILESS:
        return HttpRequest(endpoint.method, url, {name: format_value(one) for name, one in left.items()}, None, headers)
    return HttpRequest(endpoint.method, url, {}, encode_json(left), {"Content-Type": "application/json", **headers})


def format_plain(name: str, value: Any) -> str:
    if isinstance(value, dict | list) or value is None:
        raise BadArguments(f"{name} must be a text or a number")
    return format_value(value)


def format_value(value: Any) -> str:
    return value if isinstance(value, str) else encode_json(value).decode()


def encode_json(value: Any) -> bytes:
    """A value as JSON; raises BadArguments for what models may write and no JSON library takes back."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as fault:  # integers of more than 64 bits, hundreds of levels
        raise BadArguments(str(fault)) from fault


async def call_endpoint(
    endpoint: ToolEndpoint, arguments: dict[str, Any], characters: int, guard: LinkGuard
) -> ToolOutcome:
    """What the endpoint answers; no more of it is read than the model gets."""
    try:
        request = build_request(endpoint, arguments)
        link = await guard.admit(request.url)
    except BadArguments as fault:
        return ToolOutcome(f"the arguments are not usable: {fault}.", failed=True)
    except LinkRefused as fault:
        return ToolOutcome(f"the endpoint cannot be called: {fault}.", failed=True)
    try:
        async with (
            open_session(link.addresses) as session,
            session.request(
                request.method,
                link.url.update_query(request.query) if request.query else link.url,
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
            ) as response,
        ):
            return await read_outcome(response, characters)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return ToolOutcome(f"the endpoint cannot be reached: {type(error).__name__}.", failed=True)


async def read_outcome(response: aiohttp.ClientResponse, characters: int) -> ToolOutcome:
    if 300 <= response.status < 400:
        return ToolOutcome(f"the endpoint redirects elsewhere (HTTP {response.status}), which is not followed.", True)
    media_type = response.headers.get("Content-Type", "text/plain").partition(";")[0].strip().lower()
    if not media_type.startswith(TEXTUAL) and not media_type.endswith(("+json", "+xml")):
        return ToolOutcome(f"the endpoint answered with {media_type[:100]!r}, which is not text.", failed=True)
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        return ToolOutcome("the endpoint sent a compressed body, which was not requested.", failed=True)
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        body += chunk
        if len(body) > BYTES_PER_CHARACTER * characters:
            break
    text = decode_body(bytes(body), response.charset)
    if response.status >= 400:
        return ToolOutcome(f"the endpoint answered HTTP {response.status}: {text}", failed=True)
    return ToolOutcome(text)


def decode_body(body: bytes, charset: str | None) -> str:
    """The text of a body; only charsets of texts count, since Python has codecs that take quadratic time."""
    return body.decode(normalize_charset(charset) or "utf-8", "replace")
