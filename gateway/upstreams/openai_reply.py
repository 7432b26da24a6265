"""A reply of an OpenAI-compatible endpoint: what the connection receives on one side, what is read on the other."""

import asyncio
from asyncio import Future
from collections.abc import Mapping
from typing import Final

from gateway import errors
from gateway.domain.upstream import TakeBytes, UpstreamReply
from gateway.upstreams.deadlines import Deadlines
from gateway.upstreams.http_connection import HttpConnection
from gateway.upstreams.http_parser import ReplyFault, ReplyTimeoutFault
from gateway.upstreams.known_replies import WholeReply

BUFFER_BYTES: Final = 128 * 1024  # beyond this, nothing more is taken from the connection until somebody reads


class OpenAIReply(UpstreamReply):
    """A reply from the moment its request is sent; once it is whole, the connection has nothing to do with it."""

    __slots__ = (
        "_connection", "_fault", "_idle", "_is_complete", "_is_finished", "_limit", "_linger", "_name",
        "_parts", "_size", "_take", "_waiter", "head", "headers", "status",
    )  # fmt: skip

    def __init__(self, name: str, connection: HttpConnection, idle: Deadlines, linger: Deadlines, limit: int) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._name, self._idle, self._linger, self._limit = name, idle, linger, limit
        self._connection: HttpConnection | None = connection  # until the reply is whole or has failed
        self.head = connection.make_future()  # fails with a ReplyFault
        self._waiter: Future[None] | None = None
        self._take: TakeBytes | None = None  # gets the body as it arrives, while somebody waits in `forward`
        self._parts: list[bytes] = []
        self._size = 0
        self._is_complete = False
        self._is_finished = False  # nobody wants the rest, which has a moment to come
        self._fault: ReplyFault | None = None

    async def read(self) -> bytes:
        if not self._parts and not self._is_complete and self._fault is None:
            await self._wait()
        if self._parts:
            return self._take_parts()
        if self._fault is not None:
            raise self._build_error(self._fault)
        return b""

    def take_all(self) -> bytes | None:
        return self._take_parts() if self._is_complete and self._size <= self._limit else None

    async def read_all(self) -> bytes:
        if (whole := self.take_all()) is not None:
            return whole
        parts, size = [], 0
        while part := await self.read():
            parts.append(part)
            size += len(part)
            if size > self._limit:
                raise errors.UpstreamInvalid(f"Upstream {self._name!r} sent more than {self._limit} bytes.")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def forward(self, take: TakeBytes) -> bool:
        if self._parts and not take(self._take_parts()):
            return False
        if not self._is_complete and self._fault is None:
            self._take = take
            try:
                await self._wait()
                if self._take is None:
                    return False
            finally:
                self._take = None
        if self._fault is not None:
            raise self._build_error(self._fault)
        return True

    async def finish(self) -> None:
        if self._connection is not None:
            self._is_finished = True
            self._parts.clear()
            self._connection.resume_reading()
            self._linger.start(self)

    async def close(self) -> None:
        if not self._is_finished:
            self.drop()

    def drop(self) -> None:
        """Close the connection unless the reply is whole: nobody will read the rest."""
        if self._connection is not None:
            self._connection.close()

    def receive_head(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers
        if not self.head.done():
            self.head.set_result(None)

    def receive_body(self, data: bytes) -> None:
        if self._is_finished:
            return
        if self._take is not None:
            self._hand_over(data, self._take)
            return
        self._parts.append(data)
        self._size += len(data)
        if self._size > BUFFER_BYTES and self._connection is not None:
            self._connection.pause_reading()
        self._wake()

    def receive_whole(self, reply: WholeReply) -> None:
        self.status, self.headers = reply.status, reply.headers
        self._parts.append(reply.body)
        self._size = len(reply.body)
        self._connection, self._is_complete = None, True
        if not self.head.done():
            self.head.set_result(None)

    def complete(self) -> None:
        self._connection, self._is_complete = None, True
        if self._is_finished:
            self._linger.stop(self)
        self._wake()

    def fail(self, fault: ReplyFault) -> None:
        self._connection, self._fault = None, fault
        self._linger.stop(self)
        if not self.head.done():
            self.head.set_exception(fault)
        self._wake()

    def expire(self) -> None:
        """The head, or more of the body, did not come in time."""
        if self._connection is not None:
            self._connection.time_out()

    def _hand_over(self, data: bytes, take: TakeBytes) -> None:
        """Pass on what has just arrived; whoever waits in `forward` wakes only if that is the last for now."""
        self._idle.start(self)
        try:
            goes_on = take(data)
        except errors.GatewayError as error:
            self._take = None
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_exception(error)
            return
        if not goes_on:
            self._take = None
            self._wake()

    async def _wait(self) -> None:
        """Until something of the body comes, or its end."""
        self._waiter = asyncio.get_running_loop().create_future()
        self._idle.start(self)
        try:
            await self._waiter
        finally:
            self._idle.stop(self)
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take_parts(self) -> bytes:
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        if self._size > BUFFER_BYTES and self._connection is not None:
            self._connection.resume_reading()
        self._size = 0
        return data

    def _build_error(self, fault: ReplyFault) -> errors.UpstreamError:
        if isinstance(fault, ReplyTimeoutFault):
            error: errors.UpstreamError = errors.UpstreamTimeout(
                f"Upstream {self._name!r} fell silent in the middle of its reply."
            )
        else:
            error = errors.UpstreamTruncated(f"Upstream {self._name!r} broke off in the middle of its reply.")
        error.__cause__ = fault
        return error
