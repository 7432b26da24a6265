"""A reply of an OpenAI-compatible endpoint, read from an aiohttp connection, and the deadlines of its reads."""

import asyncio
from asyncio import TimerHandle
from collections.abc import Mapping
from typing import Protocol

from aiohttp import ClientError, ClientOSError, ClientPayloadError, ServerDisconnectedError, SocketTimeoutError
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader

from gateway import errors


class Waiter(Protocol):
    """Something that is being waited for; setting an exception ends the wait."""

    def set_exception(self, exc: BaseException) -> None:
        """Fail the wait."""
        ...


class Deadlines:
    """Ends waits with SocketTimeoutError after `seconds`, with one timer for all of them.

    Equal deadlines expire in the order in which they were started, so one timer for the oldest is enough. A timer for
    each request would take a twelfth of the CPU of a busy gateway.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._started: dict[Waiter, float] = {}  # the oldest first
        self._timer: TimerHandle | None = None

    def start(self, waiter: Waiter) -> None:
        """Start the clock for a wait, or restart it."""
        loop = asyncio.get_running_loop()
        self._started.pop(waiter, None)
        self._started[waiter] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._expire)

    def stop(self, waiter: Waiter) -> None:
        """Stop the clock: the wait has ended."""
        self._started.pop(waiter, None)

    def close(self) -> None:
        """Drop all waits and the timer."""
        self._started.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, now = None, loop.time()
        while self._started:
            waiter, started = next(iter(self._started.items()))
            remaining = started + self.seconds - now
            if remaining > 0:
                self._timer = loop.call_later(remaining, self._expire)
                return
            del self._started[waiter]
            waiter.set_exception(SocketTimeoutError())


class OpenAIReply:
    """A reply read straight from aiohttp's parser."""

    __slots__ = ("_closed", "_connection", "_idle", "_limit", "_name", "_payload", "_until_close", "headers", "status")

    def __init__(
        self, name: str, connection: Connection, message: RawResponseMessage, payload: StreamReader, limit: int
    ) -> None:
        self.status = message.code
        self.headers: Mapping[str, str] = {key.lower(): value for key, value in message.headers.items()}
        self._name, self._connection, self._payload, self._limit = name, connection, payload, limit
        self._until_close = not message.chunked and "content-length" not in self.headers
        self._idle: Deadlines | None = None
        self._closed: asyncio.Future[None] | None = None

    def expect_more(self, idle: Deadlines) -> None:
        """The body is still coming: watch for silence, and for an end that the parser does not report."""
        self._idle = idle
        self._closed = get_protocol(self._connection).closed
        if self._closed is not None:
            self._closed.add_done_callback(self._fail_unfinished)

    async def read(self) -> bytes:
        try:
            data = await self._read_next()
        except SocketTimeoutError as error:
            raise errors.UpstreamTimeout(f"Upstream {self._name!r} fell silent in the middle of its reply.") from error
        except (ClientError, HttpProcessingError) as error:
            raise self._build_truncation_error() from error
        if not data and self._until_close and self._was_reset():
            raise self._build_truncation_error()
        return data

    async def _read_next(self) -> bytes:
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
        if self._closed is not None:
            self._closed.remove_done_callback(self._fail_unfinished)
        release_connection(self._connection, complete=self._payload.is_eof())

    def _fail_unfinished(self, _: asyncio.Future[None]) -> None:
        # An error in the chunked encoding closes the connection without telling whoever waits for the next chunk.
        if not self._payload.is_eof() and self._payload.exception() is None:
            self._payload.set_exception(ClientPayloadError())

    def _was_reset(self) -> bool:
        # Without a length the parser takes any end for a clean one; a reset is not.
        protocol = self._connection.protocol
        return protocol is not None and isinstance(protocol.exception(), ClientOSError)

    def _build_truncation_error(self) -> errors.UpstreamTruncated:
        return errors.UpstreamTruncated(f"Upstream {self._name!r} broke off in the middle of its reply.")


def get_protocol(connection: Connection) -> ResponseHandler:
    """The connection's protocol; raises ServerDisconnectedError once it is gone."""
    if connection.protocol is None:
        raise ServerDisconnectedError
    return connection.protocol


def release_connection(connection: Connection, *, complete: bool) -> None:
    """Return the connection to the pool when both sides are done with it, otherwise drop it at once."""
    protocol, transport = connection.protocol, connection.transport
    if complete and (transport is None or not transport.get_write_buffer_size()):
        connection.release()
        return
    if protocol is not None:
        protocol.abort()  # a close would first flush what is unsent and, over TLS, wait for the other side
    connection.close()
