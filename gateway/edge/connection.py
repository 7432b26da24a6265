"""One connection, with the limits that uvicorn lacks: header size, deadlines in both directions, disconnects.

ASGI starts after the headers and ends before the socket, so these live in the protocol. In the ordinary case (a request
that arrives in one piece, a client that reads) none of them costs a timer or a task. Direct requests and those of ASGI
wait for each other in one queue, and every limit holds for both.
"""

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gateway.edge.asgi_cycle import serve_until_gone, watch_early_end
from gateway.edge.client_socket import ObservedFlow, WriteDeadline
from gateway.edge.direct_request import DirectRequest
from gateway.edge.errors import BrokenResponse, log_internal_error, render_refusal
from gateway.edge.request import DirectEndpoint
from gateway.edge.request_reader import RequestReader
from gateway.errors import GatewayError, RequestTimeout

LINGER_SECONDS = 2.0  # time for a refused client to read the reason, perhaps while it is still sending
LAST_CALL_SECONDS = 0.3  # on shutdown: an idle client may be sending its next request at this moment


class BoundedProtocol(RequestReader):
    """One connection. A subclass says its limits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._served: RequestResponseCycle | DirectRequest | None = None  # the newest that a task was started for
        self._task: asyncio.Task[None] | None = None
        self._refusal: GatewayError | None = None  # to be sent when the requests before have been answered
        self._draining = False
        self._lingers = False  # the response says that the connection ends, while a body may be on its way
        self._linger_end: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: ObservedFlow = ObservedFlow(transport, self)
        self._departure = WriteDeadline(transport, self.limits.write_seconds)
        self._arrival.start(self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(self.cycle, DirectRequest):
            self.cycle.disconnect()
            self.cycle = None  # type: ignore[assignment]  # uvicorn would look for what only its own cycles have
        super().connection_lost(exc)
        self.idle.stop(self)
        self._arrival.stop()
        self.flow.stop_looking()
        self._departure.stop()
        if self._linger_end is not None:
            self._linger_end.cancel()
        self._leave()

    def on_client_left(self) -> None:
        self._leave()
        self._close()

    def _late(self) -> None:
        """A head or a body did not arrive in time."""
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
        self._arrival.stop()
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
        self._arrival.stop()
        self.transport.write_eof()
        self._linger_end = self.loop.call_later(LINGER_SECONDS, end)

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
