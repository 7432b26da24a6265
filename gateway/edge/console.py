"""Serves the console at `/console`: its files need no key, whatever they show comes from the APIs."""

import asyncio
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.edge.console_files import INDEX, PREFIX, VERSION_MARK, ConsoleFile, ConsoleFiles
from gateway.edge.manage.calls import parse_etags
from gateway.edge.plugin_files import FOLDER, PluginFiles
from gateway.errors import MethodNotAllowed

# Everything comes from here, nothing inline runs, no other page may frame this one.
POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
SAFE_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
FOR_EVER: Final = "public, max-age=31536000, immutable"
ASK_EACH_TIME: Final = "no-cache"


class ConsoleEndpoint:
    """An ASGI app for `/console` and everything below it."""

    def __init__(self, files: ConsoleFiles | None = None, plugins: PluginFiles | None = None) -> None:
        self._files, self._plugins = files or ConsoleFiles(), plugins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{scope['path']} only accepts GET and HEAD.", allow="GET, HEAD")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        response = await self._answer(scope["path"], headers)
        if scope["method"] == "HEAD":
            response.body = b""  # Content-Length stays that of the GET
        await response(scope, receive, send)

    async def _answer(self, path: str, headers: Mapping[bytes, bytes]) -> Response:
        name, version = split_path(path)
        if version is None and name.startswith(FOLDER):
            return await self._answer_plugin(name.removeprefix(FOLDER), headers)
        file = await self._read(name, version)
        if file is None and version is None and b"text/html" in headers.get(b"accept", b""):
            # the address of a page, which the console itself routes
            file = await asyncio.to_thread(self._files.read_page, name)
        if file is None:
            return refuse()
        lasting = version is not None and version == self._files.digest
        return respond(file, headers, FOR_EVER if lasting else ASK_EACH_TIME)

    async def _answer_plugin(self, name: str, headers: Mapping[bytes, bytes]) -> Response:
        plugins = self._plugins
        found = None if plugins is None or plugins.is_empty else await asyncio.to_thread(plugins.find, name)
        return refuse() if found is None else respond(found[0], headers, FOR_EVER if found[1] else ASK_EACH_TIME)

    async def _read(self, name: str, version: str | None) -> ConsoleFile | None:
        if name == INDEX:
            return await asyncio.to_thread(self._files.read_page, "")
        known = self._files.find_read(name, version)
        return known or await asyncio.to_thread(self._files.read, name)


def split_path(path: str) -> tuple[str, str | None]:
    """The file that a normalized path names, and the version if it names one."""
    below = path.removeprefix(PREFIX).strip("/")
    if not below.startswith(VERSION_MARK):
        return below or INDEX, None
    version, _, name = below[1:].partition("/")
    return name or INDEX, version


def refuse() -> Response:
    return Response("There is no such file.\n", 404, {**SAFE_HEADERS, "cache-control": "no-store"})


def respond(file: ConsoleFile, headers: Mapping[bytes, bytes], caching: str) -> Response:
    packed = file.compressed if accepts_gzip(headers.get(b"accept-encoding", b"")) else None
    etag = file.digest if packed is None else f"{file.digest}-gzip"
    named = {**SAFE_HEADERS, "cache-control": caching, "etag": f'"{etag}"'}
    if file.compressed is not None:
        named["vary"] = "accept-encoding"
    if (parse_etags(headers.get(b"if-none-match"), weak=True) or frozenset()) & {etag, "*"}:
        return Response(status_code=304, headers=named)
    named["content-type"] = file.content_type
    if packed is not None:
        named["content-encoding"] = "gzip"
    return Response(file.body if packed is None else packed, headers=named)


def accepts_gzip(header: bytes) -> bool:
    """Whether a client takes gzip (RFC 9110 §12.5.3); one that says nothing gets the file as it is."""
    for coding in header.lower().split(b","):
        name, _, weight = coding.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            quality = weight.strip().removeprefix(b"q=").strip()
            return not quality or quality.strip(b"0.") != b""
    return False
