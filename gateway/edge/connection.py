"""One connection, with the limits that uvicorn lacks: header size, deadlines in both directions, disconnects.

ASGI starts after the headers and ends before the socket, so these live in the protocol. In the ordinary case (a request
that arrives in one piece, a client that reads) none of them costs a timer or a task.
"""

import asyncio
from asyncio import TimerHandle
from functools import partial
from typing import Any, ClassVar

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from gateway.edge.errors import BrokenResponse, render_error
from gateway.errors import GatewayError, HeadersTooLarge, InvalidRequest, RequestTimeout
from gateway.settings import LimitSettings

LINGER_SECONDS = 2.0  # time for a refused client to read the reason, perhaps while it is still sending
LAST_CALL_SECONDS = 0.3  # on shutdown: an idle client may be sending its next request at this moment


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A subclass says its limits."""

    limits: ClassVar[LimitSettings]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._served: RequestResponseCycle | None = None  # the newest request that an ASGI task was started for
        self._task: asyncio.Task[None] | None = None
        self._packet = 0  # bytes of the data at hand that may belong to the head
        self._head_bytes = 0  # bytes of an unfinished head in earlier data
        self._in_head = False
        self._in_body = False
        self._refused = False
        self._draining = False
        self._arrival: TimerHandle | None = None  # deadline for the head or the body
        self._departure: TimerHandle | None = None  # deadline for the client to read or to disconnect

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arrival = self.loop.call_later(self.limits.header_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_arrival()
        self._stop_departure()
        self._leave()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._packet = len(data)
        self._in_head = not self._in_body  # stray line ends before a request count as its head
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._refused:
            return
        if self._in_head:
            self._head_bytes += self._packet
            if self._head_bytes > self.limits.header_bytes:
                self.refuse(self._headers_too_large())
            else:
                self._await_arrival(self.limits.header_seconds)
        elif self._in_body:
            self._await_arrival(self.limits.body_seconds)

    def _parse(self, data: bytes) -> None:
        while not self._refused:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._strip_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserError:
                self.refuse(InvalidRequest("The request is not valid HTTP."))

    def _strip_upgrade(self, rest: bytes) -> bytes:
        """The same request again, without the protocol upgrade that it offers.

        Java's HTTP client offers h2c with every request. A server may decline by ignoring it (RFC 9110 §7.8), but the
        parser stops there, and the body would be lost.
        """
        method, version = self.scope["method"].encode(), self.parser.get_http_version().encode()
        if method == b"CONNECT" or self.pipeline:
            self.refuse(InvalidRequest("CONNECT and protocol upgrades are not supported."))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        kept = (name + b": " + value + b"\r\n" for name, value in self.headers if name != b"upgrade")
        return b"".join((method, b" ", self.url, b" HTTP/", version, b"\r\n", *kept, b"\r\n", rest))

    def _should_upgrade(self) -> bool:
        return True  # in uvicorn's terms: let the upgrade reach `_parse` instead of serving the head alone

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        if self._refused:
            return
        cap = self.limits.header_bytes
        # The bytes so far are an upper bound for the head; count exactly only if they exceed the limit.
        if self._head_bytes + self._packet > cap and _size(self.url, self.headers) > cap:
            self.refuse(self._headers_too_large())
            return
        self._in_head, self._in_body = False, True
        self._head_bytes = 0
        self._stop_arrival()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._packet = 0
        self._stop_arrival()
        if self._refused:
            return
        super().on_message_complete()
        if not self.pipeline:
            # A large body pauses reading; a paused transport would not notice that the client leaves.
            self.flow.resume_reading()

    def _await_arrival(self, seconds: float) -> None:
        if self._arrival is None:
            self._arrival = self.loop.call_later(seconds, self._late)

    def _stop_arrival(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _late(self) -> None:
        """A head or a body did not arrive in time."""
        self._arrival = None
        served = self._served
        if served is not None and not served.response_complete and (served.response_started or not self._in_body):
            served.keep_alive = False  # a response is being sent; nothing more is read after it
        elif self._in_head or (self._in_body and served is not None and not served.response_complete):
            self.refuse(RequestTimeout("The request did not arrive in time."))
        else:
            self._close()

    def refuse(self, error: GatewayError) -> None:
        """Answer without ASGI and close, but keep reading briefly: unread bytes would make the kernel reset it."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self._stop_arrival()
        if self._served is not None and self._served.response_started and not self._served.response_complete:
            self._close()  # an answer in the middle of another one would be taken for a part of it
            return
        self._leave()
        body = render_error(error)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[error.status] + head + body)
        self.transport.write_eof()
        self._departure = self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _headers_too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(f"The headers are larger than {self.limits.header_bytes} bytes.")

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._draining:
            cycle.keep_alive = False
        self._served = cycle
        self._task = self.loop.create_task(cycle.run_asgi(partial(_until_gone, cycle, app)))
        self._task.add_done_callback(self.tasks.discard)
        self.tasks.add(self._task)

    def _leave(self) -> None:
        """Cancel the task that serves a client that has disconnected."""
        if self._served is not None and self._task is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._task.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_departure()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_departure()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_departure()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def shutdown(self) -> None:
        """Let running requests finish; close an idle connection a moment later, in case a request is on its way."""
        self._draining = True
        if self._served is not None and not self._served.response_complete:
            self._served.keep_alive = False
        else:
            self.loop.call_later(LAST_CALL_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._in_head and (self._served is None or self._served.response_complete):
            self._close()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
            self._await_departure()

    def _await_departure(self) -> None:
        """Drop the connection if the client does not read what is written to it."""
        if self._departure is None:
            self._departure = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def _stop_departure(self) -> None:
        if self._departure is not None:
            self._departure.cancel()
            self._departure = None


async def _until_gone(cycle: RequestResponseCycle, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the app; end quietly if it was cancelled because its client disconnected, or if its response failed."""
    try:
        await app(scope, receive, send)
    except asyncio.CancelledError:
        if not cycle.disconnected:
            raise
    except BrokenResponse:
        cycle.disconnected = True
        cycle.transport.close()


def _size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    # Four bytes per line for the colon, the space and the line end, which the parser removed.
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
