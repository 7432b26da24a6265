"""Any endpoint that speaks OpenAI's wire format, over aiohttp's connections.

aiohttp pools, dials, does TLS and parses. The request is written here in one piece: the objects that a session makes
for each request cost as much CPU as all the rest of the exchange.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakSet

import msgspec
from aiohttp import (
    ClientConnectionError,
    ClientError,
    ClientOSError,
    ClientPayloadError,
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
from gateway.upstreams.deadlines import Deadlines
from gateway.upstreams.request_head import Heads

MODELS_SECONDS: Final = 5
KEEPALIVE_SECONDS: Final = 30
ONE_WRITE: Final = 64 * 1024  # beyond this, copying head and body together costs more than a second write


class OpenAIReply:
    """A reply read straight from aiohttp's parser."""

    __slots__ = ("_connection", "_ended", "_idle", "_limit", "_name", "_payload", "_until_close", "headers", "status")

    def __init__(
        self, name: str, connection: Connection, message: RawResponseMessage, payload: StreamReader, limit: int
    ) -> None:
        self.status = message.code
        self.headers: Mapping[str, str] = {key.lower(): value for key, value in message.headers.items()}
        self._name, self._connection, self._payload, self._limit = name, connection, payload, limit
        self._until_close = not message.chunked and "content-length" not in self.headers
        self._idle: Deadlines | None = None
        self._ended: asyncio.Future[None] | None = None

    def expect_more(self, idle: Deadlines) -> None:
        """The body is still coming: watch for silence, and for an end that the parser keeps to itself."""
        self._idle = idle
        self._ended = handler(self._connection).closed
        if self._ended is not None:
            self._ended.add_done_callback(self._end)

    async def read(self) -> bytes:
        try:
            data = await self._next()
        except SocketTimeoutError as error:
            raise errors.UpstreamTimeout(f"Upstream {self._name!r} fell silent in the middle of its reply.") from error
        except (ClientError, HttpProcessingError) as error:
            raise self._broken() from error
        if not data and self._until_close and self._was_reset():
            raise self._broken()
        return data

    async def _next(self) -> bytes:
        if self._idle is None:
            return await self._payload.readany()
        self._idle.start(self._payload)
        try:
            return await self._payload.readany()
        finally:
            self._idle.stop(self._payload)

    async def read_all(self) -> bytes:
        parts, size = [], 0
        while part := await self.read():
            parts.append(part)
            size += len(part)
            if size > self._limit:
                raise errors.UpstreamInvalid(f"Upstream {self._name!r} sent more than {self._limit} bytes.")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def close(self) -> None:
        if self._ended is not None:
            self._ended.remove_done_callback(self._end)
        release(self._connection, complete=self._payload.is_eof())

    def _end(self, _: asyncio.Future[None]) -> None:
        # A fault in the chunking closes the connection without a word to whoever waits for the next chunk.
        if not self._payload.is_eof() and self._payload.exception() is None:
            self._payload.set_exception(ClientPayloadError())

    def _was_reset(self) -> bool:
        # Without a length the parser takes any end for a clean one; a reset is not.
        protocol = self._connection.protocol
        return protocol is not None and isinstance(protocol.exception(), ClientOSError)

    def _broken(self) -> errors.UpstreamTruncated:
        return errors.UpstreamTruncated(f"Upstream {self._name!r} broke off in the middle of its reply.")


class OpenAIUpstream:
    """A pooled HTTP/1.1 client for one endpoint and one account."""

    def __init__(self, name: str, settings: UpstreamSettings, limits: LimitSettings) -> None:
        self.name = name
        self.can = Capabilities(
            tools=settings.tools,
            system_anywhere=settings.system_anywhere is not False,
            developer=settings.developer is not False,
            stream_usage=settings.stream_usage is not False,
        )
        self.passes_bearer = settings.pass_bearer
        self._url = URL(settings.base_url or "")
        self._heads = Heads(self._url, settings)
        self._timeouts, self._limits = settings.timeouts, limits
        self._first_byte, self._idle = Deadlines(settings.timeouts.first_byte), Deadlines(settings.timeouts.idle)
        self._connecting = ClientTimeout(total=None, connect=settings.timeouts.connect)
        self._pool: tuple[TCPConnector, ClientRequest] | None = None  # made inside the running loop
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        reply = await self._exchange(self._heads.write(request), request.body)
        if fault := unusable(reply):
            await reply.close()
            raise errors.UpstreamInvalid(f"Upstream {self.name!r} answered with {fault}.")
        return reply

    async def models(self) -> list[dict[str, Any]]:
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
            raise errors.UpstreamAuth(f"Upstream {self.name!r} refuses to list its models (HTTP {reply.status}).")
        cards = model_cards(body) if reply.status == 200 else None
        if cards is None:
            raise errors.UpstreamInvalid(f"Upstream {self.name!r} lists no models (HTTP {reply.status}).")
        return cards

    async def close(self) -> None:
        self._first_byte.close()
        self._idle.close()
        if self._pool is not None:
            connector, self._pool = self._pool[0], None
            await connector.close()

    async def _exchange(self, head: bytes, body: bytes) -> OpenAIReply:
        """Send, and wait for the head; once more when a kept connection proves dead before any byte came."""
        again = True
        while True:
            connection, reused = await self._connect()
            try:
                return await self._converse(connection, head, body)
            except ClientConnectionError as error:
                if not (reused and again):
                    raise self._unreachable("closed the connection without an answer") from error
                again = False

    async def _connect(self) -> tuple[Connection, bool]:
        """A connection, and whether it has served before."""
        if self._pool is None:
            # The connector asks a request where to connect to; one serves for all.
            where = ClientRequest("GET", self._url, loop=asyncio.get_running_loop())
            self._pool = TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS), where
        connector, where = self._pool
        try:
            connection = await connector.connect(where, traces=[], timeout=self._connecting)
        except TimeoutError as error:
            raise self._unreachable(f"took no connection within {self._timeouts.connect:g} s") from error
        except ClientError as error:
            raise self._unreachable("cannot be reached") from error
        protocol = handler(connection)
        if protocol in self._used:
            return connection, True
        self._used.add(protocol)
        if protocol.closed is not None:
            protocol.closed.add_done_callback(asyncio.Future.exception)  # asked for, or asyncio would log it
        return connection, False

    async def _converse(self, connection: Connection, head: bytes, body: bytes) -> OpenAIReply:
        protocol = handler(connection)
        protocol.set_response_params(
            read_until_eof=True, auto_decompress=False, max_field_size=self._limits.header_bytes
        )
        # Not aiohttp's read timeout: that one starts late and is put off by every byte of a head.
        self._first_byte.start(protocol)
        try:
            write(connection, head, body)
            message, payload = await final_head(protocol)
        except BaseException as error:
            release(connection, complete=False)
            if isinstance(error, SocketTimeoutError):
                limit = f"{self._first_byte.seconds:g} s"
                raise errors.UpstreamTimeout(f"Upstream {self.name!r} did not answer within {limit}.") from error
            if isinstance(error, HttpProcessingError) or is_partial(error):
                raise errors.UpstreamInvalid(f"Upstream {self.name!r} sent something that is not HTTP.") from error
            raise
        finally:
            self._first_byte.stop(protocol)
        reply = OpenAIReply(self.name, connection, message, payload, self._limits.reply_bytes)
        if not payload.is_eof():
            reply.expect_more(self._idle)
        return reply

    def _unreachable(self, how: str) -> errors.UpstreamUnreachable:
        return errors.UpstreamUnreachable(f"Upstream {self.name!r} {how}.")


def handler(connection: Connection) -> ResponseHandler:
    if connection.protocol is None:
        raise ServerDisconnectedError
    return connection.protocol


def write(connection: Connection, head: bytes, body: bytes) -> None:
    transport = connection.transport
    if transport is None:
        raise ServerDisconnectedError
    if len(body) <= ONE_WRITE:
        transport.write(head + body)
    else:
        transport.write(head)
        transport.write(body)


async def final_head(protocol: ResponseHandler) -> tuple[RawResponseMessage, StreamReader]:
    """The head of the reply itself, after any interim one (RFC 9110 §15.2)."""
    while True:
        message, payload = await protocol.read()
        if message.code >= 200 or message.code == 101:
            return message, payload


def release(connection: Connection, *, complete: bool) -> None:
    """Give the connection back when both sides are done with it, otherwise drop it at once."""
    protocol, transport = connection.protocol, connection.transport
    if complete and (transport is None or not transport.get_write_buffer_size()):
        connection.release()
        return
    if protocol is not None:
        protocol.abort()  # a close would first flush what is unsent and, over TLS, wait for the other side
    connection.close()


def is_partial(error: BaseException) -> bool:
    """Whether part of a head had come when the connection ended."""
    return isinstance(error, ServerDisconnectedError) and isinstance(error.message, RawResponseMessage)


def unusable(reply: OpenAIReply) -> str | None:
    """Why a reply cannot be used whatever its body says, if so."""
    if reply.status == 101 or 300 <= reply.status < 400:
        return f"HTTP {reply.status}, which is not followed"
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        return "a compressed body although none was asked for"
    return None


def model_cards(body: bytes) -> list[dict[str, Any]] | None:
    """The entries of a model list that have an id; None when it is no model list."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    cards = data.get("data") if isinstance(data, dict) else None
    if not isinstance(cards, list):
        return None
    return [card for card in cards if isinstance(card, dict) and isinstance(card.get("id"), str)]
