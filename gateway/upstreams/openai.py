"""Any endpoint that speaks OpenAI's wire format, over aiohttp's connections.

aiohttp pools, connects, does TLS and parses. The request is written here in one piece: the objects that a session
makes for each request cost as much CPU as all the rest of the exchange.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakSet

import msgspec
from aiohttp import (
    ClientConnectionError,
    ClientError,
    ClientRequest,
    ClientTimeout,
    ServerDisconnectedError,
    SocketTimeoutError,
    TCPConnector,
)
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from gateway import errors
from gateway.domain.upstream import Capabilities, UpstreamReply, UpstreamRequest
from gateway.settings import LimitSettings, UpstreamSettings
from gateway.upstreams.openai_reply import Deadlines, OpenAIReply, get_protocol, release_connection

MODELS_SECONDS: Final = 5
KEEPALIVE_SECONDS: Final = 30
SINGLE_WRITE_BYTES: Final = 64 * 1024  # beyond this, copying head and body together costs more than a second write
MAX_OPENINGS: Final = 256  # kept in memory; those of further paths are built for each request
REQUEST_TARGET: Final = re.compile(r"/[!-\"$-~]*")  # origin form: printable ASCII without a fragment
# Written by us alone: a forwarded one could change the framing, the account or the encoding of the reply.
OWN_HEADERS: Final = frozenset(
    {"accept-encoding", "authorization", "connection", "content-length", "cookie", "expect", "host"}
    | {"transfer-encoding", "upgrade"}
)


class RequestHeadWriter:
    """Writes the heads of requests to one endpoint with one account, without any header that nobody asked for."""

    def __init__(self, url: URL, settings: UpstreamSettings) -> None:
        self._url = url
        self._fixed = build_fixed_headers(url, settings)
        self._excluded = OWN_HEADERS | self._fixed.keys()
        self._passes_bearer = settings.pass_bearer
        self._openings: dict[tuple[str, str], bytes] = {}

    def write(self, request: UpstreamRequest) -> bytes:
        """The head including its final empty line; raises InvalidRequest for what HTTP cannot carry."""
        lines = [f"{name}: {value}\r\n" for name, value in request.headers if name.lower() not in self._excluded]
        if self._passes_bearer and request.bearer:
            lines.append(f"authorization: Bearer {request.bearer}\r\n")
        if request.body or request.method != "GET":
            lines.append(f"content-length: {len(request.body)}\r\n")
            if "content-type" not in self._fixed and not any(line[:13].lower() == "content-type:" for line in lines):
                lines.append("content-type: application/json\r\n")
        return self._write_opening(request.method, request.path) + encode_lines(lines) + b"\r\n"

    def _write_opening(self, method: str, path: str) -> bytes:
        """The request line and the headers that every request has, cached per path."""
        opening = self._openings.get((method, path))
        if opening is None:
            lines = [f"{method} {build_target(self._url, path)} HTTP/1.1\r\n"]
            opening = encode_lines(lines + [f"{name}: {value}\r\n" for name, value in self._fixed.items()])
            if len(self._openings) < MAX_OPENINGS:
                self._openings[method, path] = opening
        return opening


@dataclass(frozen=True, slots=True)
class ConnectionPool:
    """aiohttp's pool for one endpoint."""

    connector: TCPConnector
    address: ClientRequest  # the connector asks a request where to connect to; one serves for all


@dataclass(frozen=True, slots=True)
class PooledConnection:
    """A connection, and whether it has served a request before."""

    connection: Connection
    reused: bool


class OpenAIUpstream:
    """A pooled HTTP/1.1 client for one endpoint and one account."""

    def __init__(self, name: str, settings: UpstreamSettings, limits: LimitSettings) -> None:
        self.name = name
        self.capabilities = Capabilities(
            tools=settings.tools,
            system_anywhere=settings.system_anywhere is not False,
            developer=settings.developer is not False,
            stream_usage=settings.stream_usage is not False,
        )
        self.passes_bearer = settings.pass_bearer
        self._url = URL(settings.base_url or "")
        self._heads = RequestHeadWriter(self._url, settings)
        self._timeouts, self._limits = settings.timeouts, limits
        self._first_byte, self._idle = Deadlines(settings.timeouts.first_byte), Deadlines(settings.timeouts.idle)
        self._connect_timeout = ClientTimeout(total=None, connect=settings.timeouts.connect)
        self._pool: ConnectionPool | None = None  # made inside the running loop
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        reply = await self._send_head_and_body(self._heads.write(request), request.body)
        if fault := find_fault(reply):
            await reply.close()
            raise errors.UpstreamInvalid(f"Upstream {self.name!r} answered with {fault}.")
        return reply

    async def list_models(self) -> list[dict[str, Any]]:
        try:
            async with asyncio.timeout(MODELS_SECONDS):
                reply = await self.send(UpstreamRequest("/models", b"", method="GET"))
                try:
                    body = await reply.read_all()
                finally:
                    await reply.close()
        except TimeoutError as error:
            raise errors.UpstreamTimeout(f"Upstream {self.name!r} did not list its models in time.") from error
        if reply.status in (401, 403):
            raise errors.UpstreamAuth(f"Upstream {self.name!r} refused to list its models (HTTP {reply.status}).")
        cards = parse_model_cards(body) if reply.status == 200 else None
        if cards is None:
            raise errors.UpstreamInvalid(f"Upstream {self.name!r} did not return a model list (HTTP {reply.status}).")
        return cards

    async def close(self) -> None:
        self._first_byte.close()
        self._idle.close()
        if self._pool is not None:
            connector, self._pool = self._pool.connector, None
            await connector.close()

    async def _send_head_and_body(self, head: bytes, body: bytes) -> OpenAIReply:
        """Send, and wait for the reply's head; once more if a reused connection turns out dead before any byte came."""
        may_retry = True
        while True:
            pooled = await self._connect()
            try:
                return await self._send_over(pooled.connection, head, body)
            except ClientConnectionError as error:
                if not (pooled.reused and may_retry):
                    raise self._build_unreachable("closed the connection without an answer") from error
                may_retry = False

    async def _connect(self) -> PooledConnection:
        if self._pool is None:
            self._pool = ConnectionPool(
                TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
                ClientRequest("GET", self._url, loop=asyncio.get_running_loop()),
            )
        pool = self._pool
        try:
            connection = await pool.connector.connect(pool.address, traces=[], timeout=self._connect_timeout)
        except TimeoutError as error:
            raise self._build_unreachable(f"accepted no connection within {self._timeouts.connect:g} s") from error
        except ClientError as error:
            raise self._build_unreachable("cannot be reached") from error
        protocol = get_protocol(connection)
        if protocol in self._used:
            return PooledConnection(connection, reused=True)
        self._used.add(protocol)
        if protocol.closed is not None:
            protocol.closed.add_done_callback(asyncio.Future.exception)  # retrieved, or asyncio would log it
        return PooledConnection(connection, reused=False)

    async def _send_over(self, connection: Connection, head: bytes, body: bytes) -> OpenAIReply:
        protocol = get_protocol(connection)
        protocol.set_response_params(
            read_until_eof=True, auto_decompress=False, max_field_size=self._limits.header_bytes
        )
        # Not aiohttp's read timeout: that one starts late and is extended by every byte of a head.
        self._first_byte.start(protocol)
        try:
            write_request(connection, head, body)
            message, payload = await read_final_head(protocol)
        except BaseException as error:
            release_connection(connection, complete=False)
            if isinstance(error, SocketTimeoutError):
                limit = f"{self._first_byte.seconds:g} s"
                raise errors.UpstreamTimeout(f"Upstream {self.name!r} did not answer within {limit}.") from error
            if isinstance(error, HttpProcessingError) or is_partial_head(error):
                raise errors.UpstreamInvalid(f"Upstream {self.name!r} sent something that is not HTTP.") from error
            raise
        finally:
            self._first_byte.stop(protocol)
        reply = OpenAIReply(self.name, connection, message, payload, self._limits.reply_bytes)
        if not payload.is_eof():
            reply.expect_more(self._idle)
        return reply

    def _build_unreachable(self, how: str) -> errors.UpstreamUnreachable:
        return errors.UpstreamUnreachable(f"Upstream {self.name!r} {how}.")


def build_fixed_headers(url: URL, settings: UpstreamSettings) -> dict[str, str]:
    """The headers of every request, by lower-case name; a configured header wins over ours."""
    fixed = {"host": url.host_port_subcomponent or "", "accept-encoding": "identity"}
    if settings.api_key and not settings.pass_bearer:
        fixed["authorization"] = f"Bearer {settings.api_key}"
    return fixed | {name.lower(): value for name, value in settings.headers.items()}


def build_target(url: URL, path: str) -> str:
    """The request target below the base URL; both may have a query."""
    path, _, query = path.partition("?")
    queries = "&".join(part for part in (url.raw_query_string, query) if part)
    target = url.raw_path.rstrip("/") + path + (f"?{queries}" if queries else "")
    if not REQUEST_TARGET.fullmatch(target):
        raise errors.InvalidRequest("The path contains characters that are not allowed in a URL.")
    return target


def encode_lines(lines: list[str]) -> bytes:
    """Header lines as bytes; a line break inside one would start a header that nobody checked."""
    text = "".join(lines)
    if text.count("\r") != len(lines) or text.count("\n") != len(lines) or "\0" in text:
        raise errors.InvalidRequest("A header contains a line break or a NUL.")
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()  # only a configured header can get here: ASGI's are latin-1 already


def write_request(connection: Connection, head: bytes, body: bytes) -> None:
    transport = connection.transport
    if transport is None:
        raise ServerDisconnectedError
    if len(body) <= SINGLE_WRITE_BYTES:
        transport.write(head + body)
    else:
        transport.write(head)
        transport.write(body)


async def read_final_head(protocol: ResponseHandler) -> tuple[RawResponseMessage, StreamReader]:
    """aiohttp's message and payload of the reply itself, after any interim reply (RFC 9110 §15.2)."""
    while True:
        message, payload = await protocol.read()
        if message.code >= 200 or message.code == 101:
            return message, payload


def is_partial_head(error: BaseException) -> bool:
    """Whether part of a head had come when the connection ended."""
    return isinstance(error, ServerDisconnectedError) and isinstance(error.message, RawResponseMessage)


def find_fault(reply: OpenAIReply) -> str | None:
    """Why a reply cannot be used whatever its body says, if so."""
    if reply.status == 101 or 300 <= reply.status < 400:
        return f"HTTP {reply.status}, which the gateway does not follow"
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        return "a compressed body that was not requested"
    return None


def parse_model_cards(body: bytes) -> list[dict[str, Any]] | None:
    """The entries of a model list that have an id; None when it is no model list."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    cards = data.get("data") if isinstance(data, dict) else None
    if not isinstance(cards, list):
        return None
    return [card for card in cards if isinstance(card, dict) and isinstance(card.get("id"), str)]
