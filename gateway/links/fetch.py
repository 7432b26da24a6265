"""Fetches one page as text: no cookies, no proxies, no compression, no redirect that was not checked."""

import asyncio
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from types import MappingProxyType
from urllib.parse import urljoin

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gateway.extraction import formats
from gateway.extraction.extract import extract_html
from gateway.links.addresses import Address
from gateway.links.guard import AdmittedLink, Guard, LinkError, LinkRefused
from gateway.settings import DocumentSettings, LinkSettings

MAX_HOPS = 5
CHUNK = 64 * 1024
REDIRECTS = frozenset({301, 302, 303, 307, 308})
HTML = frozenset({"text/html", "application/xhtml+xml"})
CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
# identity: 800 bytes of brotli can unpack to half a gigabyte before anybody counts.
HEADERS = MappingProxyType(
    {
        "User-Agent": "context-gateway",
        "Accept": "text/html, text/markdown, text/plain, application/json;q=0.9, text/*;q=0.8",
        "Accept-Encoding": "identity",
    }
)


class FetchError(LinkError):
    """A server that could not be asked, or whose answer is of no use."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """What a server said; `text` is None for 304, when the copy at hand is still good."""

    status: int
    text: str | None
    content_type: str = ""
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


async def fetch(
    url: str, *, guard: Guard, limits: LinkSettings, etag: str | None = None, last_modified: str | None = None
) -> FetchedPage:
    """The page as text; LinkError if there is none: Refused by the guard, or a FetchError."""
    headers = dict(HEADERS)
    if etag:
        headers["If-None-Match"] = etag
    if last_modified:
        headers["If-Modified-Since"] = last_modified
    try:
        async with asyncio.timeout(limits.timeout):
            reply = await _follow(url, headers, guard, limits.max_bytes)
    except TimeoutError:
        raise FetchError(f"it took longer than {limits.timeout:g} seconds") from None
    except (aiohttp.ClientError, OSError) as error:
        raise FetchError(f"it cannot be reached: {error or type(error).__name__}") from error
    if reply.status == 304 and (etag or last_modified):
        return FetchedPage(304, None, "", etag, last_modified)
    if reply.status != 200:
        raise FetchError(f"the server answered {reply.status}")
    return await _read(reply)


async def _follow(url: str, headers: Mapping[str, str], guard: Guard, max_bytes: int) -> _Reply:
    for _ in range(MAX_HOPS + 1):
        admitted = await guard.admit(url)
        reply = await _ask(admitted, headers, max_bytes)
        if reply.status not in REDIRECTS:
            return reply
        url = next_hop(admitted.url, reply.headers.get("Location", ""))
    raise FetchError(f"it redirects more than {MAX_HOPS} times")


def next_hop(url: URL, location: str) -> str:
    """Where a redirect leads; the guard has still to look at it."""
    # urljoin drops tabs and line breaks; such a Location is refused as it came.
    if not location or not location.isprintable():
        raise LinkRefused("it redirects to something that is no URL")
    try:
        target = urljoin(str(url), location)
    except ValueError as error:
        raise LinkRefused(f"it redirects to something that is no URL: {error}") from error
    if url.scheme == "https" and not target.lower().startswith("https:"):
        raise LinkRefused("it redirects from https to something less safe")
    return target


async def _ask(admitted: AdmittedLink, headers: Mapping[str, str], max_bytes: int) -> _Reply:
    # A connector per request: there is no pool in which a connection for another address could be waiting.
    connector = aiohttp.TCPConnector(resolver=_Pinned(admitted.addresses), use_dns_cache=False, force_close=True)
    async with (
        aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
        ) as session,
        session.get(admitted.url, headers=headers, allow_redirects=False) as response,
    ):
        body = await _body(response, max_bytes) if response.status == 200 else b""
        return _Reply(response.status, response.headers, body)


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise FetchError("the server sent a compressed body although none was asked for")
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        body += chunk
        if len(body) > max_bytes:
            raise FetchError(f"it is larger than links.max_bytes ({max_bytes})")
    return bytes(body)


async def _read(reply: _Reply) -> FetchedPage:
    declared = reply.headers.get("Content-Type", "")
    kind = declared.partition(";")[0].strip().lower()
    named = CHARSET.search(declared)
    charset = named[1] if named else None
    if not _is_text(kind):
        raise FetchError(f"its content type {kind!r} is not text")
    try:
        if kind in HTML:
            text = await asyncio.to_thread(extract_html, reply.body, DocumentSettings(), charset)
        else:
            text = formats.decode_text(reply.body, charset)
    except ValueError as error:
        raise FetchError(f"its text cannot be read: {error}") from error
    return FetchedPage(200, text, kind, reply.headers.get("ETag"), reply.headers.get("Last-Modified"))


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") or kind in HTML or kind == "application/json" or kind.endswith("+json")


class _Pinned(AbstractResolver):
    """Answers with the addresses that were checked, whatever is asked."""

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""
