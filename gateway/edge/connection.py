"""One connection, with the limits that uvicorn lacks: header size, deadlines in both directions, disconnects.

ASGI starts after the headers and ends before the socket, so these live in the protocol. In the ordinary case (a request
that arrives in one piece, a client that reads) none of them costs a timer or a task. Requests for a direct endpoint
(chat) are answered without ASGI, all others by uvicorn's cycle and the app. Both kinds wait for each other in one
queue, and every limit holds for both.
"""

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.edge.asgi_cycle import serve_until_gone, watch_early_end
from gateway.edge.client_socket import ObservedFlow, WriteDeadline
from gateway.edge.direct_request import DirectRequest
from gateway.edge.errors import BrokenResponse, log_internal_error, render_refusal
from gateway.edge.head_bytes import measure_head, write_plain_head
from gateway.edge.request import DirectEndpoint, DirectEndpoints, FoundEndpoint
from gateway.edge.response import Headers
from gateway.errors import GatewayError, HeadersTooLarge, InvalidRequest, RequestTimeout
from gateway.settings import LimitSettings
from gateway.upstreams.deadlines import Deadlines

LINGER_SECONDS = 2.0  # time for a refused client to read the reason, perhaps while it is still sending
LAST_CALL_SECONDS = 0.3  # on shutdown: an idle client may be sending its next request at this moment
MAX_QUEUED = 32  # requests of one connection that wait for those before them; a packet could hold thousands


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A subclass says its limits."""

    limits: ClassVar[LimitSettings]
    idle: ClassVar[Deadlines]  # for connections that are kept open
    direct: ClassVar[DirectEndpoints] = DirectEndpoints()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._served: RequestResponseCycle | DirectRequest | None = None  # the newest that a task was started for
        self._task: asyncio.Task[None] | None = None
        self._overhead = 0  # bytes of chunk headers and trailers since the last byte of the body
        self._packet = 0  # bytes of the data at hand
        self._follows = False  # an earlier request ended in the data at hand: not all of it can be the head
        self._head_bytes = 0  # bytes of an unfinished head in earlier data
        self._doubtful = 0  # of these, bytes that may have belonged to an earlier request
        self._in_head = False
        self._in_body = False
        self._refused = False  # nothing more is taken from the client
        self._refusal: GatewayError | None = None  # to be sent when the requests before have been answered
        self._draining = False
        self._lingers = False  # the response says that the connection ends, while a body may be on its way
        self._arrival: TimerHandle | None = None  # deadline for the head or the body
        self._arrival_left: float | None = None  # of that deadline, when reading was paused
        self._linger_end: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: ObservedFlow = ObservedFlow(transport, self)
        self._departure = WriteDeadline(transport, self.limits.write_seconds)
        self._arrival = self.loop.call_later(self.limits.header_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(self.cycle, DirectRequest):
            self.cycle.disconnect()
            self.cycle = None  # type: ignore[assignment]  # uvicorn would look for what only its own cycles have
        super().connection_lost(exc)
        self.idle.stop(self)
        self._stop_arrival()
        self.flow.stop_looking()
        self._departure.stop()
        if self._linger_end is not None:
            self._linger_end.cancel()
        self._leave()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._packet = len(data)
        self._follows = False
        self._overhead += len(data)
        self._in_head = not self._in_body  # stray line ends before a request count as its head
        self.idle.stop(self)
        self._parse(data)
        if self._refused:
            return
        if self._in_head:
            self._head_bytes += self._packet
            if self._follows:
                self._doubtful = self._packet
            if self._head_bytes - self._doubtful > self.limits.header_bytes:
                self.refuse(self._headers_too_large())
            else:
                self._await_arrival(self.limits.header_seconds)
        elif self._in_body:
            if self._overhead > self.limits.header_bytes:
                self.refuse(InvalidRequest("The chunks of the body have headers or trailers that are too large."))
            else:
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
        method, version = self.parser.get_method(), self.parser.get_http_version()
        if method == b"CONNECT" or self.pipeline:
            self.refuse(InvalidRequest("CONNECT and protocol upgrades are not supported."))
        self._in_body = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        return write_plain_head(method, self.url, version, self.headers) + rest

    def _should_upgrade(self) -> bool:
        return True  # in uvicorn's terms: let the upgrade reach `_parse` instead of serving the head alone

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            # They come after the caller was admitted: nobody may take them for headers.
            self.refuse(InvalidRequest("Trailers are not supported."))
        elif not self._refused:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._refused:
            return
        cap = self.limits.header_bytes
        # The bytes so far are an upper bound for the head; count exactly only if they exceed the limit.
        if self._head_bytes + self._packet > cap and measure_head(self.url, self.headers) > cap:
            self.refuse(self._headers_too_large())
            return
        self._in_head, self._in_body = False, True
        self._head_bytes = self._doubtful = self._overhead = 0
        self._stop_arrival()
        if self.expect_100_continue:
            self.flow.pause_reading()  # until somebody asks for the body; the client is not late before that
        found = self.direct.find(self.url)
        if self.pipeline and len(self.pipeline) >= MAX_QUEUED:
            self._stop_taking()
        elif found is None:
            self._make_scope()
            super().on_headers_complete()
        elif not self.parser.should_upgrade():
            self._accept(found)

    def _stop_taking(self) -> None:
        """Answer what is queued and close: the client sends more requests ahead than anybody needs."""
        self._refused = True
        self.pipeline[0][0].keep_alive = False

    def _make_scope(self) -> None:
        """What uvicorn makes of every request before its head, including those that never use it."""
        url, headers, expects_continue = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects_continue
        self.headers += headers

    def _accept(self, found: FoundEndpoint) -> None:
        """Take a request for a direct endpoint: now, or after those that are still being answered."""
        endpoint, target = found
        parser, former = self.parser, self.cycle
        request = DirectRequest(self, parser.get_method().decode("ascii"), self.headers, target)
        request.configure(
            parser.get_http_version(),
            keep_alive=parser.should_keep_alive(),
            expects_continue=self.expect_100_continue,
        )
        self.cycle = request  # type: ignore[assignment]  # it has what uvicorn's protocol looks at
        if former is None or former.response_complete:
            self._start_asgi_task(request, endpoint)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((request, endpoint))  # type: ignore[arg-type]

    @property
    def default_headers(self) -> Headers:
        return self.server_state.default_headers

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        if self._refused:
            return
        if isinstance(self.cycle, DirectRequest):
            if not self.parser.should_upgrade():
                self.cycle.receive_body(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._follows = True
        self._stop_arrival()
        if self._refused:
            return
        if isinstance(self.cycle, DirectRequest):
            if not self.parser.should_upgrade():
                self.cycle.end_body()
        else:
            super().on_message_complete()
        answered = self.cycle is not None and self.cycle.response_complete  # before its body was here
        if answered and not self.pipeline and not self.transport.is_closing():
            self.idle.start(self)
        if self.flow.read_paused and not self.pipeline:
            # A large body pauses reading; a paused transport would not notice that the client leaves.
            self.flow.resume_reading()

    def _await_arrival(self, seconds: float) -> None:
        if self._arrival is None and not self.flow.read_paused:
            self._arrival = self.loop.call_later(seconds, self._late)

    def _stop_arrival(self) -> None:
        self._arrival_left = None
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def on_reading_paused(self) -> None:
        """What does not arrive now is not late because of the client."""
        if self._arrival is not None:
            left = self._arrival.when() - self.loop.time()
            self._stop_arrival()
            self._arrival_left = max(left, 0)

    def on_reading_resumed(self) -> None:
        if self._arrival_left is not None:
            self._await_arrival(self._arrival_left)
        elif self._in_body or self._in_head:
            self._await_arrival(self.limits.body_seconds if self._in_body else self.limits.header_seconds)

    def on_client_left(self) -> None:
        self._leave()
        self._close()

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
        """Answer without ASGI, after the requests before, and close."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self._stop_arrival()
        if self._in_body and self.pipeline:
            self.pipeline.popleft()  # the newest, which this is about
        served = self._served
        if served is None or served.response_complete:
            self._send_refusal(error)
        elif served is not self.cycle or not self._in_body:
            self._refusal = error  # an earlier request is being answered
        elif served.response_started:
            self._close()  # an answer in the middle of another one would be taken for a part of it
        else:
            self._leave()
            self._send_refusal(error)

    def _send_refusal(self, error: GatewayError) -> None:
        self.transport.write(render_refusal(error))
        self._linger(self.transport.abort)

    def _linger(self, end: Callable[[], None]) -> None:
        """Send nothing more, and drop what still comes for a while: unread bytes would make the kernel reset it."""
        self._refused = True
        self.flow.resume_reading()
        self._stop_arrival()
        self.transport.write_eof()
        self._linger_end = self.loop.call_later(LINGER_SECONDS, end)

    def _headers_too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(f"The headers are larger than {self.limits.header_bytes} bytes.")

    def _start_asgi_task(self, cycle: RequestResponseCycle | DirectRequest, app: Any) -> None:
        """Begin to answer a request of either kind; uvicorn calls it for those of its queue."""
        if self._draining:
            cycle.keep_alive = False
        self._served = cycle
        if isinstance(cycle, DirectRequest):
            work = self._answer(cycle, app)
        else:
            watched = watch_early_end(cycle, app, self._end_early) if cycle.more_body or self._refused else app
            work = cycle.run_asgi(partial(serve_until_gone, cycle, watched))
        self._task = task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, request: DirectRequest, endpoint: DirectEndpoint) -> None:
        """Have a request answered; whatever happens, the connection is not left waiting."""
        try:
            await endpoint.serve(request)
        except asyncio.CancelledError:
            if not request.disconnected:
                self._close()
                raise
        except BrokenResponse:
            self._close()
        except Exception as error:
            log_internal_error(error)
            self._close()
        else:
            if not request.response_complete:
                self._close()

    def _leave(self) -> None:
        """Cancel the task that serves a client that has disconnected."""
        served = self._served
        if served is not None and self._task is not None and not served.response_complete:
            served.disconnected = True
            self._task.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._departure.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._departure.stop()

    def on_response_complete(self) -> None:
        """A response is written: go on with the next request of the queue, or wait for one."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._departure.start()
        elif self._lingers:
            self._linger(self._close)
        elif self.pipeline:
            request, app = self.pipeline.pop()
            if not self.pipeline and not request.waiting_for_100_continue:
                self.flow.resume_reading()
            self._start_asgi_task(request, app)
        elif self._refusal is not None:
            self._send_refusal(self._refusal)
        else:
            if self.flow.read_paused:
                self.flow.resume_reading()
            self.idle.start(self)

    def end(self, *, early: bool) -> None:
        if not self._end_early(early):
            self.transport.close()

    def _end_early(self, early: bool) -> bool:
        """Whether the connection has to linger after its last response: there may be unread bytes."""
        self._lingers = early or self._refused or self.flow.read_paused
        return self._lingers

    def expire(self) -> None:
        """No request has come for too long."""
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
            self._departure.start()
