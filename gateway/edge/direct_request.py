"""A request that is answered on its connection, without ASGI: its body in, its response out."""

import asyncio
from asyncio import Future
from collections.abc import Sequence
from typing import Final, Protocol

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from gateway.edge.paths import DirectTarget
from gateway.edge.request import RequestHead, body_too_large, check_body_headers
from gateway.edge.response import Headers, encode_head

MANY_PARTS = 1024  # of a body, before they are joined
UNREAD_BODY_BYTES: Final = 256 * 1024  # taken from a client before anybody has asked for its body
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"


class ClientConnection(Protocol):
    """What a request needs of its connection."""

    transport: asyncio.Transport
    server_state: ServerState  # with the headers of every response

    @property
    def flow(self) -> FlowControl:
        """Whether it may be read and written."""
        ...

    def end(self, *, early: bool) -> None:
        """Let the response that is being completed be the last one; early: the body has not come yet."""
        ...

    def on_response_complete(self) -> None:
        """The response is written."""
        ...


class DirectRequest:
    """One request. uvicorn's protocol sees the attributes without an underscore, as those of its own cycles."""

    __slots__ = (
        "_chunked", "_connection", "_has_body", "_head", "_joined", "_limit", "_parts", "_size", "_waiter",
        "disconnected", "head", "headers", "keep_alive", "method", "response_complete", "response_started",
        "target", "waiting_for_100_continue",
    )  # fmt: skip

    def __init__(
        self,
        connection: ClientConnection,
        method: str,
        headers: Sequence[tuple[bytes, bytes]],
        target: DirectTarget,
        head: RequestHead | None = None,
    ) -> None:
        self.method, self.headers, self.target = method, headers, target  # names of headers in lower case
        self.head = head
        self.keep_alive = True
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self._connection = connection
        self._chunked = True  # whether a stream is; HTTP/1.0 knows no chunks
        self.waiting_for_100_continue = False
        self._head = b""  # of a stream, until its first piece is sent
        self._joined: list[bytes] = []  # of the body, and then
        self._parts: list[bytes] = []
        self._size = 0
        self._has_body = False  # the whole of it
        self._limit: int | None = None  # None: nobody has asked for it yet
        self._waiter: Future[None] | None = None

    def configure(self, version: str, *, keep_alive: bool, expects_continue: bool) -> None:
        """What the head says about the connection."""
        self._chunked = version != "1.0"
        self.keep_alive = keep_alive and self._chunked
        self.waiting_for_100_continue = expects_continue

    async def read_body(self, head: RequestHead, max_bytes: int) -> bytes:
        """The whole body; its deadline is kept by the connection."""
        check_body_headers(head, max_bytes)
        self._limit = max_bytes
        if not self._has_body and self._size <= max_bytes:
            await self._wait_for_body()
        if self._size > max_bytes:
            raise body_too_large(max_bytes)
        parts, self._parts, self._joined = [*self._joined, *self._parts], [], []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _wait_for_body(self) -> None:
        connection = self._connection
        if self.waiting_for_100_continue:
            self.waiting_for_100_continue = False
            connection.transport.write(CONTINUE)
        if connection.flow.read_paused:
            connection.flow.resume_reading()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def receive_body(self, data: bytes) -> None:
        """Called by the connection with a part of the body."""
        if self.response_complete:
            return
        self._size += len(data)
        if self._limit is not None and self._size > self._limit:
            self._parts.clear()  # it will be refused
            self._joined.clear()
            self._wake()
            return
        if len(self._parts) >= MANY_PARTS:  # each costs many times its size, if it is small
            self._joined.append(b"".join(self._parts))
            self._parts.clear()
        self._parts.append(data)
        if self._limit is None and self._size > UNREAD_BODY_BYTES:
            self._connection.flow.pause_reading()

    def take_whole_body(self, data: bytes) -> None:
        """Called by the connection instead of `receive_body` and `end_body`, before anybody has asked for it."""
        self._parts.append(data)
        self._size, self._has_body = len(data), True

    def end_body(self) -> None:
        """Called by the connection: the body is whole."""
        self._has_body = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response; `headers` name its content type."""
        if self._connection.flow.write_paused:
            await self._connection.flow.drain()
        if self.disconnected:
            return
        head = self._start(status, headers, b"content-length: %d\r\n" % len(body))
        self._connection.transport.write(head if self.method == "HEAD" else head + body)
        self._complete()

    def start_stream(self, status: int, headers: Headers) -> None:
        """Begin a response whose body comes in pieces; its head goes out with the first of them, even an empty one."""
        self._head = self._start(status, headers, b"transfer-encoding: chunked\r\n" if self._chunked else b"")

    def write(self, data: bytes) -> bool:
        """Send a piece; False: the client has not taken what it was sent, so wait in `drain` before sending more."""
        if self.disconnected or self.response_complete:
            return True
        self._connection.transport.write(self._frame(data))
        return not self._connection.flow.write_paused

    async def drain(self) -> None:
        await self._connection.flow.drain()

    def end(self, data: bytes) -> None:
        """Send the last piece of a stream; once it has ended, nothing more is sent."""
        if self.disconnected or self.response_complete:
            return
        framed = self._frame(data)
        self._connection.transport.write(framed + LAST_CHUNK if self._chunked else framed)
        self._complete()

    def _frame(self, data: bytes) -> bytes:
        """A piece as it goes over the wire, behind the head if that is still here: each write is a system call."""
        head = self._head
        if head:
            self._head = b""
        if not self._chunked:
            return head + data
        return b"%b%x\r\n%b\r\n" % (head, len(data), data) if data else head

    def disconnect(self) -> None:
        """Called by the connection: the client is gone, and nothing more can be sent."""
        self.disconnected = True

    def _start(self, status: int, headers: Headers, framing: bytes) -> bytes:
        self.response_started = True
        if self.waiting_for_100_continue and not self._has_body:
            self.keep_alive = False  # the client may or may not send its body now: what comes next would be a guess
        self.waiting_for_100_continue = False
        defaults = self._connection.server_state.default_headers
        return encode_head(status, defaults, headers, framing, closes=not self.keep_alive)

    def _complete(self) -> None:
        self.response_complete = True
        self._parts.clear()
        if not self.keep_alive:
            self._connection.end(early=not self._has_body)
        self._connection.on_response_complete()
