"""Fetches one page as text: no cookies, no proxies, no compression, no redirect that was not checked."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Address
from types import MappingProxyType
from urllib.parse import urljoin

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gateway.extraction import formats
from gateway.extraction.extract import extract_html
from gateway.links.addresses import Address
from gateway.links.guard import AdmittedLink, LinkGuard, LinkRefused
from gateway.links.page import FetchedPage, FetchError
from gateway.settings import DocumentSettings, LinkSettings

MAX_REDIRECTS = 5
CHUNK_BYTES = 64 * 1024
REDIRECTS = frozenset({301, 302, 303, 307, 308})
HTML = frozenset({"text/html", "application/xhtml+xml"})
CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
# identity: 800 bytes of brotli can unpack to half a gigabyte before the size is checked.
ExtractPage = Callable[[bytes, str | None], Awaitable[str]]  # content, charset
HEADERS = MappingProxyType(
    {
        "User-Agent": "context-gateway",
        "Accept": "text/html, text/markdown, text/plain, application/json;q=0.9, text/*;q=0.8",
        "Accept-Encoding": "identity",
    }
)


class PageReply(msgspec.Struct, frozen=True):
    """A reply before its text is extracted."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def extract_page(content: bytes, charset: str | None) -> str:
    """The text of a page, for whoever shares the threads with nobody."""
    return await asyncio.to_thread(extract_html, content, DocumentSettings(), charset)


async def fetch_page(
    url: str,
    *,
    guard: LinkGuard,
    limits: LinkSettings,
    etag: str | None = None,
    last_modified: str | None = None,
    extract: ExtractPage = extract_page,
) -> FetchedPage:
    """The page as text; raises LinkRefused if the guard does not admit it, else FetchError."""
    headers = dict(HEADERS)
    if etag:
        headers["If-None-Match"] = etag
    if last_modified:
        headers["If-Modified-Since"] = last_modified
    try:
        async with asyncio.timeout(limits.timeout):
            reply = await _follow_redirects(url, headers, guard, limits.max_bytes)
    except TimeoutError:
        raise FetchError(f"it took longer than {limits.timeout:g} seconds") from None
    except (aiohttp.ClientError, OSError) as error:
        raise FetchError(f"it cannot be reached: {error or type(error).__name__}") from error
    if reply.status == 304 and (etag or last_modified):
        return FetchedPage(304, None, "", etag, last_modified)
    if reply.status != 200:
        raise FetchError(f"the server answered {reply.status}")
    return await _extract_page(reply, extract)


async def _follow_redirects(url: str, headers: Mapping[str, str], guard: LinkGuard, max_bytes: int) -> PageReply:
    for _ in range(MAX_REDIRECTS + 1):
        link = await guard.admit(url)
        reply = await _send_request(link, headers, max_bytes)
        if reply.status not in REDIRECTS:
            return reply
        url = resolve_redirect(link.url, reply.headers.get("Location", ""))
    raise FetchError(f"it redirects more than {MAX_REDIRECTS} times")


def resolve_redirect(url: URL, location: str) -> str:
    """The target of a redirect; the guard still has to check it."""
    # urljoin drops tabs and line breaks; such a Location is refused as it came.
    if not location or not location.isprintable():
        raise LinkRefused("it redirects to an invalid URL")
    try:
        target = urljoin(str(url), location)
    except ValueError as error:
        raise LinkRefused(f"it redirects to an invalid URL: {error}") from error
    if url.scheme == "https" and not target.lower().startswith("https:"):
        raise LinkRefused("it redirects from https to an insecure URL")
    return target


def open_session(addresses: tuple[Address, ...] | None) -> aiohttp.ClientSession:
    """A session for one request, to these addresses only; None: wherever the operator's own name for it leads."""
    # A connector per request: no pool can contain a connection to another address.
    resolver = PinnedResolver(addresses) if addresses is not None else None
    connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
    )


async def _send_request(link: AdmittedLink, headers: Mapping[str, str], max_bytes: int) -> PageReply:
    async with (
        open_session(link.addresses) as session,
        session.get(link.url, headers=headers, allow_redirects=False) as response,
    ):
        body = await _read_body(response, max_bytes) if response.status == 200 else b""
        return PageReply(response.status, response.headers, body)


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise FetchError("the server sent a compressed body, which was not requested")
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            raise FetchError(f"it is larger than links.max_bytes ({max_bytes})")
    return bytes(body)


async def _extract_page(reply: PageReply, extract: ExtractPage = extract_page) -> FetchedPage:
    declared = reply.headers.get("Content-Type", "")
    media_type = declared.partition(";")[0].strip().lower()
    match = CHARSET.search(declared)
    charset = match[1] if match else None
    if not _is_text(media_type):
        raise FetchError(f"its content type {media_type!r} is not text")
    try:
        if media_type in HTML:
            text = await extract(reply.body, charset)
        else:
            text = formats.decode_text(reply.body, charset)
    except ValueError as error:
        raise FetchError(f"its text cannot be read: {error}") from error
    return FetchedPage(200, text, media_type, _read_header(reply, "ETag"), _read_header(reply, "Last-Modified"))


def _read_header(reply: PageReply, name: str) -> str | None:
    """A header that is stored and sent back; bytes that are no text could not be."""
    value = reply.headers.get(name)
    return value if value is not None and value.isascii() and value.isprintable() else None


def _is_text(media_type: str) -> bool:
    is_json = media_type == "application/json" or media_type.endswith("+json")
    return media_type.startswith("text/") or media_type in HTML or is_json


class PinnedResolver(AbstractResolver):
    """Resolves every name to the addresses that were checked."""

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
        """There is nothing to close."""
