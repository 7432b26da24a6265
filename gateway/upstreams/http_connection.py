"""One HTTP/1.1 connection to an upstream: one request at a time, used again only if nothing is in doubt.

| state  | meaning                       | bytes                  | end of stream, reset           | time is up      |
|--------|-------------------------------|------------------------|--------------------------------|-----------------|
| IDLE   | no request; kept by the pool  | CLOSED: nobody asked   | CLOSED                         | CLOSED          |
| SENT   | a request, no byte of a reply | HEAD                   | CLOSED, no reply (sent again   | CLOSED, timeout |
|        |                               |                        | if the connection was kept)    |                 |
| HEAD   | part of a head, interim heads | BODY at its end;       | CLOSED, invalid                | CLOSED, timeout |
|        |                               | CLOSED if invalid      |                                |                 |
| BODY   | a head, part of a body        | IDLE or CLOSED at its  | CLOSED; complete if only the   | CLOSED, timeout |
|        |                               | end; CLOSED if invalid | end of stream ends such a body |                 |
|        |                               |                        | and it was no reset; else      |                 |
|        |                               |                        | truncated                      |                 |
| CLOSED | nothing is sent or taken      | ignored                | ignored                        | ignored         |

`send` leads from IDLE to SENT, `close` from everywhere to CLOSED. At the end of a reply the connection is IDLE only if
the server keeps it open, the request was sent whole, and not one byte came after the reply; otherwise it is CLOSED.
"""

import asyncio
import select
import ssl
from enum import Enum
from typing import Final, Protocol, cast

from gateway.upstreams.http_parser import (
    InvalidReplyFault,
    NoReplyFault,
    ReplyFault,
    ReplyParser,
    ReplySink,
    ReplyTimeoutFault,
    TruncatedReplyFault,
)
from gateway.upstreams.known_replies import KnownReplyHeads, WholeReply

SINGLE_WRITE_BYTES: Final = 64 * 1024  # beyond this, copying head and body together costs more than a second write
SLICE_BYTES: Final = 256 * 1024  # of a large body; the next one follows when the transport has room


class ConnectionState(Enum):
    """Where a connection is between two requests."""

    IDLE = "idle"
    SENT = "sent"
    HEAD = "head"
    BODY = "body"
    CLOSED = "closed"


IDLE, SENT, HEAD, BODY, CLOSED = ConnectionState  # Python 3.11 takes long to find a member of an enum by its name


class ConnectionKeeper(Protocol):
    """Whoever connections return to."""

    def keep(self, connection: "HttpConnection") -> None:
        """The connection is idle and may be used again."""
        ...

    def forget(self, connection: "HttpConnection") -> None:
        """The connection is closed."""
        ...


class HttpConnection(asyncio.Protocol):
    """A connection and its state; what it receives goes to the sink of the request at hand."""

    def __init__(
        self, keeper: ConnectionKeeper, account: str | None, head_limit: int, known: KnownReplyHeads | None = None
    ) -> None:
        self.account = account
        self.is_reused = False  # it has carried a request before
        self.state = IDLE
        self._keeper, self._head_limit = keeper, head_limit
        self._known = known or KnownReplyHeads(head_limit)
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # to ask for it is a system call in Python 3.11
        self._sink: ReplySink | None = None
        self._parser: ReplyParser | None = None  # of the reply at hand, once there is something to parse
        self._head_only = False
        self._poll = select.poll()
        self._unsent = memoryview(b"")
        self._can_write = True
        self._is_reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    @property
    def tls(self) -> ssl.SSLObject | None:
        return None if self._transport is None else self._transport.get_extra_info("ssl_object")

    def make_future(self) -> asyncio.Future[None]:
        """Something to wait for."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.create_future()

    def is_quiet(self) -> bool:
        """Whether it is idle and nothing has arrived, not even what the loop has not seen yet."""
        if self.state is not IDLE or self._transport is None or self._transport.is_closing():
            return False
        return not self._poll.poll(0)

    def send(self, head: bytes, body: bytes, sink: ReplySink, *, head_only: bool = False) -> None:
        """Send a request whose reply goes to `sink`; raises NoReplyFault if the connection is closed."""
        transport = self._transport
        if self.state is not IDLE or transport is None or transport.is_closing():
            raise NoReplyFault
        self.state = SENT
        self._sink, self._head_only = sink, head_only
        if len(body) <= SINGLE_WRITE_BYTES:
            transport.write(head + body)
            return
        unsent = memoryview(body)
        self._unsent = unsent[SLICE_BYTES:]
        transport.writelines((head, unsent[:SLICE_BYTES]))
        self._write_more()

    def close(self, fault: ReplyFault | None = None) -> None:
        """Drop the connection at once; a reply that is still coming fails."""
        if self.state is CLOSED:
            return
        fault = fault or self._explain_end()
        self.state = CLOSED
        self._unsent = memoryview(b"")
        if self._transport is not None:
            # A close would first flush what is unsent and, over TLS, wait for the other side.
            self._transport.abort()
        self._keeper.forget(self)
        sink = self._detach()
        if sink is not None:
            sink.fail(fault)

    def expire(self) -> None:
        """Nobody has used it for too long."""
        if self.state is IDLE:
            self.close()

    def time_out(self) -> None:
        """The reply at hand takes too long."""
        self.close(ReplyTimeoutFault())

    def pause_reading(self) -> None:
        """Take nothing more until `resume_reading`: the sink has enough."""
        if self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = True
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        sink, parser = self._sink, self._parser
        if sink is None:
            self.close()  # nobody asked: whose answer is it?
            return
        is_first = parser is None
        if parser is None:
            if not self._head_only and (whole := self._known.recall(data)) is not None:
                self._take_whole(whole, sink)
                return
            parser = self._parser = ReplyParser(sink, self._head_limit, head_only=self._head_only)
        try:
            parser.feed(data)
        except ReplyFault as fault:
            self.close(fault)
            return
        if parser.is_complete:
            if is_first and parser.keeps_alive and parser.has_length and not parser.has_leftover:
                self._known.learn(data, parser.status, parser.headers)
            self._finish(parser)
        elif self.state is not CLOSED:
            self.state = BODY if parser.has_head else HEAD

    def _take_whole(self, reply: WholeReply, sink: ReplySink) -> None:
        """A reply that came in one piece, and whose head says that the server keeps the connection."""
        self._sink = None
        self._release(reusable=True)
        sink.receive_whole(reply)

    def eof_received(self) -> None:
        parser = self._parser
        if parser is not None:
            parser.feed_eof()
            if parser.is_complete:
                self._finish(parser)
                return
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close()

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._write_more()

    def _write_more(self) -> None:
        while self._unsent and self._can_write and self._transport is not None:
            piece, self._unsent = self._unsent[:SLICE_BYTES], self._unsent[SLICE_BYTES:]
            self._transport.write(piece)

    def _finish(self, parser: ReplyParser) -> None:
        """The reply is whole: give the connection back before anybody reads on, or part with it."""
        sink = self._detach()
        self._release(reusable=parser.keeps_alive and not parser.has_leftover)
        if sink is not None:
            sink.complete()

    def _release(self, *, reusable: bool) -> None:
        """Return to the pool if the reply allows that and the request was sent whole; else close."""
        transport = self._transport
        reusable = reusable and transport is not None and not transport.is_closing() and self.state is not CLOSED
        if not reusable or transport is None or self._unsent or transport.get_write_buffer_size():
            self.close()
            return
        self.resume_reading()
        self.state = IDLE
        self._keeper.keep(self)
        self.is_reused = True

    def _explain_end(self) -> ReplyFault:
        """What it means for the reply at hand that the connection ends."""
        if self.state is SENT:
            return NoReplyFault()
        return InvalidReplyFault("half a head") if self.state is HEAD else TruncatedReplyFault()

    def _detach(self) -> ReplySink | None:
        sink, self._sink = self._sink, None
        if self._parser is not None:
            self._parser.close()
            self._parser = None
        return sink
