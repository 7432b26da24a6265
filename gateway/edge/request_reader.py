"""From bytes to requests: what arrives on a connection, within limits.

Requests for a direct endpoint (chat) are answered without ASGI, all others by uvicorn's cycle and the app. A head that
is known is not parsed again; the parser does not see such a request at all.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.edge.client_socket import ArrivalDeadline, ObservedFlow
from gateway.edge.direct_request import DirectRequest
from gateway.edge.head_bytes import measure_head, write_plain_head
from gateway.edge.known_heads import ConnectionHeads, KnownHeads
from gateway.edge.request import DirectEndpoints, FoundEndpoint
from gateway.errors import GatewayError, HeadersTooLarge, InvalidRequest
from gateway.settings import LimitSettings
from gateway.upstreams.deadlines import Deadlines

MAX_QUEUED = 32  # requests of one connection that wait for those before them; a packet could hold thousands


class RequestReader(HttpToolsProtocol):
    """The reading half of a connection. A subclass says its limits, and answers what is read."""

    limits: ClassVar[LimitSettings]
    idle: ClassVar[Deadlines]  # for connections that are kept open
    direct: ClassVar[DirectEndpoints] = DirectEndpoints()
    heads: ClassVar[KnownHeads] = KnownHeads()
    flow: ObservedFlow

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._overhead = 0  # bytes of chunk headers and trailers since the last byte of the body
        self._packet = 0  # bytes of the data at hand
        self._follows = False  # an earlier request ended in the data at hand: not all of it can be the head
        self._head_bytes = 0  # bytes of an unfinished head in earlier data
        self._doubtful = 0  # of these, bytes that may have belonged to an earlier request
        self._in_head = False
        self._in_body = False
        self._refused = False  # nothing more is taken from the client
        self._arrival = ArrivalDeadline(self._late)  # of the head or the body
        self._heads = ConnectionHeads(self.heads)
        self._body_left = 0  # bytes to come of a body that follows a known head

    @abstractmethod
    def refuse(self, error: GatewayError) -> None:
        """Answer without ASGI, after the requests before, and close."""

    @abstractmethod
    def _late(self) -> None:
        """A head or a body did not arrive in time."""

    @abstractmethod
    def end(self, *, early: bool) -> None:
        """Let the response that is being completed be the last one; early: the body has not come yet."""

    @abstractmethod
    def expire(self) -> None:
        """No request has come for too long."""

    @abstractmethod
    def _start_asgi_task(self, cycle: RequestResponseCycle | DirectRequest, app: Any) -> None:
        """Begin to answer a request of either kind."""

    def data_received(self, data: bytes) -> None:
        if self._refused or not (data := self._take_known(data)):
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

    def _take_known(self, data: bytes) -> bytes:
        """Take a request whose head is known, or more of its body; returns what is left for the parser."""
        if self._body_left:
            return self._take_body(data)
        former = self.cycle
        if self._in_body or self._head_bytes or self.pipeline or (former is not None and not former.response_complete):
            return data
        recalled = self._heads.recall(data, self.limits.body_bytes)
        if recalled is None:
            return data
        self.idle.stop(self)
        self._arrival.stop()
        known, body = recalled.known, data[recalled.size :]
        request = DirectRequest(self, "POST", known.headers, known.found.target, known.head)
        self.cycle = request  # type: ignore[assignment]
        self._in_head, self._in_body = False, True
        self._start_asgi_task(request, known.found.endpoint)
        if len(body) == recalled.length:  # most requests arrive in one piece
            self._in_body = False
            request.take_whole_body(body)
            return b""
        self._body_left = recalled.length
        return self._take_body(body)

    def _take_body(self, data: bytes) -> bytes:
        """Take what belongs to the body at hand; returns the rest."""
        body, rest = data[: self._body_left], data[self._body_left :]
        self._body_left -= len(body)
        if body:
            self.on_body(body)
        if not self._body_left:
            self.on_message_complete()
        else:
            self._await_arrival(self.limits.body_seconds)
        return rest

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
        self._arrival.stop()
        if self.expect_100_continue:
            self.flow.pause_reading()  # until somebody asks for the body; the client is not late before that
        found = self.direct.find(self.url)
        if self._heads.repeats:
            self._learn_head(found)
        if self.pipeline and len(self.pipeline) >= MAX_QUEUED:
            self._stop_taking()
        elif found is None:
            self._make_scope()
            super().on_headers_complete()
        elif not self.parser.should_upgrade():
            self._accept(found)

    def _learn_head(self, found: FoundEndpoint | None) -> None:
        """Remember a head that came before; the parser has accepted it."""
        parser = self.parser
        usual = parser.get_method() == b"POST" and parser.get_http_version() == "1.1" and parser.should_keep_alive()
        self._heads.learn(found, self.headers, usual=usual)

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
        self._arrival.stop()
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
        if not self.flow.read_paused:
            self._arrival.start(seconds)

    def on_reading_paused(self) -> None:
        self._arrival.pause()

    def on_reading_resumed(self) -> None:
        body = self.limits.body_seconds if self._in_body else None
        self._arrival.resume(self.limits.header_seconds if self._in_head else body)

    def _headers_too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(f"The headers are larger than {self.limits.header_bytes} bytes.")
