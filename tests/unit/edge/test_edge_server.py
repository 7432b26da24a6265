"""The server on real sockets: bounds, deadlines, clients that leave, draining."""

import asyncio
import logging
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from gateway.edge.asgi_cycle import serve_until_gone
from gateway.edge.errors import ErrorBoundary
from gateway.edge.request import ClientRequest, read_body, read_head
from gateway.edge.request_reader import MAX_QUEUED
from gateway.edge.response import send_json
from gateway.edge.server import build_server
from gateway.settings import LimitSettings, Settings
from tests.support.prompt_server import PromptServer

GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
CLOSE = (b"connection", b"close")


class EndpointOf:
    """An ASGI app behind the interface of direct endpoints: what holds for the one has to hold for the other."""

    path = "/"

    def __init__(self, app: Any) -> None:
        self._app = app

    async def serve(self, request: ClientRequest) -> None:
        scope: dict[str, Any] = {"headers": request.headers, "request": request}
        await ErrorBoundary(self._app)(scope, receive_nothing, DirectSend(request))


async def receive_nothing() -> dict[str, Any]:
    raise AssertionError("a direct request has its own way to its body")


class DirectSend:
    """ASGI's `send` on top of a direct request."""

    def __init__(self, request: ClientRequest) -> None:
        self._request = request
        self._start: Any = None

    async def __call__(self, message: Any) -> None:
        request, data = self._request, message.get("body", b"")
        if message["type"] == "http.response.start":
            headers = [header for header in message["headers"] if header != CLOSE]
            request.keep_alive = request.keep_alive and headers == message["headers"]  # type: ignore[attr-defined]
            if any(name == b"content-length" for name, _ in headers):
                self._start = message["status"], [header for header in headers if header[0] != b"content-length"]
            else:
                request.start_stream(message["status"], headers)
                request.write(b"")
        elif self._start is not None:
            status, headers = self._start
            await request.respond(status, headers, data)
        elif not message.get("more_body"):
            request.end(data)
        elif not request.write(data):
            await request.drain()


class Running:
    """A server in a thread of its own, on a port that the kernel picked."""

    def __init__(self, app: Any, limits: LimitSettings, direct: bool) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        settings, endpoints = Settings(upstreams={}, routes=[], limits=limits), [EndpointOf(app)] if direct else []
        served = with_lifespan(refuse if direct else ErrorBoundary(app))
        self.server = PromptServer(build_server(served, settings, endpoints).config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.thread.start()
        wait_for(lambda: self.server.started)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.socket.getsockname()[1]), timeout=20)

    def stop(self) -> None:
        self.server.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()


@contextmanager
def running_server(app: Any, direct: bool, **limits: float) -> Iterator[Running]:
    server = Running(app, LimitSettings(**limits), direct)
    try:
        yield server
    finally:
        server.stop()


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    await send_json(send, 500, b"not what was asked")


@pytest.fixture(scope="module", params=[False, True], ids=["ASGI", "direct"])
def direct(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


RunServer = Callable[..., AbstractContextManager[Running]]


@pytest.fixture
def running(direct: bool) -> RunServer:
    return partial(running_server, direct=direct)


def with_lifespan(app: Any) -> Any:
    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            return await app(scope, receive, send)
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})

    return serve


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def read_all(client: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):
        while piece := client.recv(65536):
            data += piece
    return data


def read_piece(client: socket.socket, data: bytes) -> bytes:
    """What comes next after `data`; a loop that did not notice the end of the connection would never end."""
    piece = client.recv(65536)
    assert piece, f"closed after {data!r}"
    return piece


def read_response(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """One response with a content-length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += read_piece(client, data)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    while len(body) < int(headers["content-length"]):
        body += read_piece(client, body)
    return int(first.split()[1]), headers, body


def error_of(body: bytes) -> dict[str, Any]:
    error = orjson.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


async def receive_body(scope: Any, receive: Any, max_bytes: int = 1_000_000) -> bytes:
    head = read_head(scope["headers"])
    if "request" in scope:
        return bytes(await scope["request"].read_body(head, max_bytes))
    return await read_body(head, receive, max_bytes)


async def echo_length(scope: Any, receive: Any, send: Any) -> None:
    await send_json(send, 200, b"%d" % len(await receive_body(scope, receive)))


@pytest.fixture(scope="module")
def echo(direct: bool) -> Iterator[Running]:
    """As patient as a busy machine needs: there, half a second may pass before a server reads what was sent."""
    with running_server(echo_length, direct, header_bytes=4096, header_seconds=15, body_seconds=15) as server:
        yield server


@pytest.fixture(scope="module")
def hasty_echo(direct: bool) -> Iterator[Running]:
    """For what has to be cut off."""
    with running_server(echo_length, direct, header_bytes=4096, header_seconds=0.5, body_seconds=0.5) as server:
        yield server


def test_a_connection_serves_one_request_after_another(echo):
    with echo.connect() as client:
        for size in (0, 5, 200_000):
            client.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
            status, headers, body = read_response(client)
            assert (status, body) == (200, b"%d" % size)
            assert "connection" not in headers
            assert "server" not in headers


def test_pipelined_requests_are_answered_in_order(echo):
    with echo.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc" + GET)
        assert read_all_responses(client, 2) == [b"3", b"0"]


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
def test_an_offer_of_another_protocol_is_ignored_and_the_body_is_kept(echo, protocol, caplog):
    offer = b"connection: upgrade, http2-settings\r\nupgrade: %s\r\nhttp2-settings: AA\r\n" % protocol
    whole = b"POST / HTTP/1.1\r\nhost: a\r\n" + offer + b"content-length: 3\r\n\r\nabc"
    with echo.connect() as client:
        client.sendall(whole)
        assert read_response(client)[2] == b"3"
        client.sendall(whole[:-2])
        time.sleep(0.05)
        client.sendall(whole[-2:])
        assert read_response(client)[2] == b"3"
        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n" + offer + b"\r\n")
        assert read_response(client)[2] == b"0"
        client.sendall(GET)
        assert read_response(client)[2] == b"0"
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []  # others may have wanted an access log


def test_a_tunnel_is_refused(echo):
    with echo.connect() as client:
        client.sendall(b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n")
        assert read_response(client)[0] == 400


def test_a_flood_of_offers_is_cut_short(echo):
    offer = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
    with echo.connect() as client:
        client.sendall(offer * 1000)
        assert read_all(client).count(b"HTTP/1.1 ") < 5


def read_all_responses(client: socket.socket, count: int) -> list[bytes]:
    data = b""
    while data.count(b"content-length") < count or not data[-1:].isdigit():
        data += read_piece(client, data)
    return [part.partition(b"\r\n\r\n")[2] for part in data.split(b"HTTP/1.1 200 OK\r\n")[1:]]


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 5000 + b"\r\n\r\n",
        b"GET /" + b"y" * 5000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 1000 + b"\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 3_000_000,
    ],
    ids=["long value", "long path", "many headers", "endless value"],
)
def test_too_many_header_bytes_are_refused_with_431(echo, head):
    with echo.connect() as client:
        client.sendall(head)
        status, headers, body = read_response(client)
        assert (status, headers["connection"]) == (431, "close")
        assert error_of(body)["code"] == "headers_too_large"
        assert read_all(client) == b""


def test_a_client_that_is_still_sending_headers_reads_why_they_are_refused(echo):
    with echo.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nx: ")
        for _ in range(4):
            client.sendall(b"y" * 100_000)
            time.sleep(0.05)
        assert read_response(client)[0] == 431


def test_a_large_body_before_a_pipelined_head_does_not_count_as_headers(echo):
    with echo.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 50000\r\n\r\n" + b"x" * 50_000 + GET[:20])
        assert read_response(client)[2] == b"50000"
        client.sendall(GET[20:])
        assert read_response(client)[2] == b"0"


def test_a_large_body_does_not_count_as_headers(echo):
    with echo.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 50000\r\n\r\n" + b"x" * 50_000)
        assert read_response(client)[2] == b"50000"
        client.sendall(GET)
        assert read_response(client)[2] == b"0"


@pytest.mark.parametrize("junk", [b"not http at all\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9\r\n\r\n"])
def test_malformed_http_is_refused_with_400(echo, junk):
    with echo.connect() as client:
        client.sendall(junk)
        status, _, body = read_response(client)
        assert (status, error_of(body)["code"]) == (400, "invalid_request")


def test_headers_that_trickle_are_cut_off_with_408(hasty_echo):
    with hasty_echo.connect() as client:
        begun = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            for byte in GET[:15]:
                client.sendall(bytes([byte]))
                time.sleep(0.05)
        status, _, body = read_response(client)
        assert (status, error_of(body)["code"]) == (408, "request_timeout")
        assert time.monotonic() - begun < 15  # and not when this client's patience ends


def test_a_connection_that_says_nothing_is_closed(hasty_echo):
    with hasty_echo.connect() as client:
        assert read_all(client) == b""


def test_a_kept_connection_may_rest_longer_than_a_head_may_take(hasty_echo):
    with hasty_echo.connect() as client:
        client.sendall(GET)
        read_response(client)
        time.sleep(0.7)
        client.sendall(GET)
        assert read_response(client)[0] == 200


def test_stray_line_ends_do_not_keep_a_connection_open(hasty_echo):
    with hasty_echo.connect() as client:
        client.sendall(GET)
        read_response(client)
        client.sendall(b"\r\n")
        assert b"408" in read_all(client)


@pytest.mark.parametrize("sent", [b"", b"abc"])
def test_a_body_that_does_not_come_is_cut_off_with_408(hasty_echo, sent):
    with hasty_echo.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n" + sent)
        status, _, body = read_response(client)
        assert (status, error_of(body)["code"]) == (408, "request_timeout")
        wait_for(lambda: not hasty_echo.server.server_state.tasks)


def test_a_client_that_is_still_sending_reads_why_its_body_is_refused(echo):
    with echo.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\n\r\n" + b"x" * 3_000_000)
        status, _, body = read_response(client)
        assert (status, error_of(body)["code"]) == (413, "request_too_large")
        client.sendall(GET)
        assert read_response(client)[0] == 200


class Waiting:
    """An app that begins a response and then waits for ever."""

    def __init__(self, start: bool = True) -> None:
        self.start = start
        self.called = threading.Event()
        self.entered = threading.Event()
        self.cancelled = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.called.set()
        await receive_body(scope, receive, LimitSettings().body_bytes)
        if self.start:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
        self.entered.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("size", [10, 500_000])
def test_a_client_that_leaves_cancels_its_request_and_nothing_is_logged(running, start, size, caplog):
    app = Waiting(start)
    with caplog.at_level(logging.WARNING), running(app) as server:
        with server.connect() as client:
            client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
            assert app.entered.wait(5)
        assert app.cancelled.wait(1)
        wait_for(lambda: not server.server.server_state.tasks)
    assert [one.message for one in caplog.records if one.levelno > logging.INFO] == []


def test_a_client_that_leaves_is_noticed_after_a_large_body_that_came_at_once(running):
    app = Waiting()
    with running(app) as server:
        server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 400_000)
        with server.connect() as client:
            client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n")
            assert app.called.wait(5)
            app.loop.call_soon_threadsafe(time.sleep, 0.2)  # so that all of it waits in the socket
            time.sleep(0.05)
            client.sendall(b"x" * 100_000)
            assert app.entered.wait(5)
        assert app.cancelled.wait(1)


@pytest.mark.parametrize("gone", [True, False])
async def test_only_a_cancellation_for_a_client_that_left_ends_quietly(gone):
    async def cancelled(scope: Any, receive: Any, send: Any) -> None:
        raise asyncio.CancelledError

    nothing: Any = None
    cycle: Any = SimpleNamespace(disconnected=gone)
    serving = serve_until_gone(cycle, cancelled, {}, nothing, nothing)
    if gone:
        await serving
    else:
        with pytest.raises(asyncio.CancelledError):
            await serving


def test_work_after_the_whole_response_is_not_cancelled(running):
    finished = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send_json(send, 200, b"{}")
        await asyncio.sleep(0.2)
        finished.set()

    with running(app) as server:
        with server.connect() as client:
            client.sendall(GET)
            read_response(client)
        assert finished.wait(2)


def test_a_client_that_does_not_read_is_dropped(running):
    ended = threading.Event()

    async def flood(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        except asyncio.CancelledError:
            ended.set()
            raise

    with running(flood, write_seconds=0.3) as server, server.connect() as client:
        client.sendall(GET)
        assert ended.wait(3)
        wait_for(lambda: not server.server.server_state.connections)


def test_an_unread_rest_does_not_hold_a_closing_connection(running):
    async def some(scope: Any, receive: Any, send: Any) -> None:
        # More than the sockets take, less than makes the transport pause.
        await send_json(send, 200, b"x" * 60_000, [(b"connection", b"close")])

    with running(some, write_seconds=0.3) as server, socket.socket() as client:
        server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(server.socket.getsockname())
        client.sendall(GET)
        wait_for(lambda: bool(server.server.server_state.connections))
        time.sleep(0.1)
        assert server.server.server_state.connections
        wait_for(lambda: not server.server.server_state.connections, 3)


def test_an_unexpected_failure_is_a_500_in_the_same_shape(running, caplog):
    async def faulty(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError("secret detail")

    with running(faulty) as server, server.connect() as client:
        client.sendall(GET)
        status, _, body = read_response(client)
        assert (status, error_of(body)["code"]) == (500, "internal_error")
        assert b"secret detail" not in body
    assert "KeyError" in caplog.text


def test_a_failure_inside_a_response_breaks_the_connection_and_is_logged_once(running, caplog):
    async def faulty(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise KeyError("detail")

    with running(faulty) as server, server.connect() as client:
        client.sendall(GET)
        answer = read_all(client)
        assert b"half" in answer
        assert not answer.endswith(b"0\r\n\r\n")
    logged = [record.message for record in caplog.records if record.levelno > logging.INFO]
    assert logged == ["Unexpected KeyError"]


async def slow(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(5):
        await send({"type": "http.response.body", "body": b"piece ", "more_body": True})
        await asyncio.sleep(0.1)
    await send({"type": "http.response.body", "body": b"end"})


def test_draining_lets_a_stream_finish(running):
    with running(slow) as server, server.connect() as client:
        client.sendall(GET)
        first = client.recv(65536)
        server.stop()
        whole = first + read_all(client)
        assert whole.count(b"piece") == 5
        assert whole.endswith(b"0\r\n\r\n")


def test_draining_answers_a_kept_connection_once_more_and_says_close(running):
    with running(echo_length) as server, server.connect() as client:
        client.sendall(GET)
        read_response(client)
        server.server.stop()
        wait_for(lambda: not server.server.servers[0].is_serving())
        client.sendall(GET)
        status, headers, _ = read_response(client)
        assert (status, headers["connection"]) == (200, "close")
        assert read_all(client) == b""


def test_draining_ends_a_stream_that_takes_too_long(running):
    app = Waiting()
    with running(app, drain_seconds=0.2) as server, server.connect() as client:
        client.sendall(GET)
        assert app.entered.wait(5)
        server.stop()
        assert app.cancelled.is_set()
        assert not read_all(client).endswith(b"0\r\n\r\n")


CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"


@pytest.mark.parametrize("pause", [False, True], ids=["at once", "later"])
def test_trailers_are_refused_and_the_connection_is_closed(echo, pause):
    with echo.connect() as client:
        client.sendall(CHUNKED)
        if pause:
            time.sleep(0.05)
        client.sendall(b"x-context-agent: other\r\n\r\n" + GET)
        status, headers, body = read_response(client)
        assert (status, headers["connection"]) == (400, "close")
        assert (error_of(body)["code"], error_of(body)["message"]) == ("invalid_request", "Trailers are not supported.")
        assert read_all(client) == b""
        wait_for(lambda: not echo.server.server_state.tasks)


@pytest.mark.parametrize("filler", [b"x: " + b"y" * 100_000, b"y" * 100_000], ids=["value", "name"])
def test_endless_trailers_are_cut_off(echo, filler):
    with echo.connect() as client:
        client.sendall(CHUNKED)
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(50):
                client.sendall(filler)
                filler = b"y" * 100_000
        assert read_response(client)[0] == 400


def test_endless_chunk_extensions_are_cut_off(echo):
    with echo.connect() as client:
        client.sendall(CHUNKED[: CHUNKED.index(b"3\r\n")] + b"3;x=")
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(50):
                client.sendall(b"y" * 100_000)
        assert read_response(client)[0] == 400


def test_a_chunked_body_without_trailers_is_whole(echo):
    with echo.connect() as client:
        for _ in range(2):
            client.sendall(CHUNKED + b"\r\n")
            assert read_response(client)[2] == b"3"


def test_a_client_that_waits_for_a_word_before_its_body_gets_one(echo):
    with echo.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n")
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert read_response(client)[2] == b"3"


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(echo):
    with echo.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\nexpect: 100-continue\r\n\r\n")
        assert read_response(client)[0] == 413


def test_a_chunked_body_that_grows_too_large_is_refused(echo):
    with echo.connect() as client:
        client.sendall(CHUNKED[: CHUNKED.index(b"3\r\n")])
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(20):
                client.sendall(b"186a0\r\n" + b"x" * 100_000 + b"\r\n")
        assert read_response(client)[0] == 413


def test_a_client_of_http_1_0_gets_its_answer_and_the_end(echo):
    with echo.connect() as client:
        client.sendall(b"GET / HTTP/1.0\r\nhost: a\r\n\r\n")
        status, headers, body = read_response(client)
        assert (status, headers["connection"], body) == (200, "close", b"0")
        assert read_all(client) == b""


def test_a_client_that_asks_for_it_is_the_last_on_its_connection(echo):
    with echo.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n" + GET)
        status, headers, _ = read_response(client)
        assert (status, headers["connection"]) == (200, "close")
        assert read_all(client) == b""


def test_many_pipelined_requests_of_both_kinds_are_answered_in_order(direct):
    other = GET.replace(b" / ", b" /other ")
    with running_server(echo_length, direct) as server, server.connect() as client:
        wanted = [b"0", b"0", b"0"] if not direct else [b"0", b"not what was asked", b"0"]
        client.sendall((GET + other + GET) * 5)
        data = b""
        while data.count(b"content-length") < 15 or not data.endswith(b"0"):
            data += read_piece(client, data)
        assert [part.partition(b"\r\n\r\n")[2] for part in data.split(b"HTTP/1.1 ")[1:]] == wanted * 5


def test_a_slow_reader_holds_the_writer_back(running):
    written = 0

    async def flood(scope: Any, receive: Any, send: Any) -> None:
        nonlocal written
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(400):
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            written += 65536
        await send({"type": "http.response.body", "body": b""})

    with running(flood) as server, server.connect() as client:
        client.sendall(GET)
        time.sleep(0.3)
        assert written < 400 * 65536
        data = 0
        while (piece := client.recv(1 << 20)) and not piece.endswith(b"0\r\n\r\n"):
            data += len(piece)
        assert written == 400 * 65536


def test_an_idle_connection_is_closed_after_a_while(direct):
    settings = Settings(upstreams={}, routes=[])
    endpoints = [EndpointOf(echo_length)] if direct else []
    server = build_server(with_lifespan(ErrorBoundary(echo_length)), settings, endpoints, keep_alive=0.2)
    plug = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([plug],), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    with socket.create_connection(plug.getsockname(), timeout=5) as client:
        client.sendall(GET)
        read_response(client)
        began = time.monotonic()
        assert client.recv(10) == b""
        assert time.monotonic() - began > 0.1
    server.should_exit = True
    thread.join(10)


# Deadlines: the client is cut for what it does, never for what the gateway does.


def connect_with_small_buffers(server: Running) -> socket.socket:
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(5)
    client.connect(server.socket.getsockname())
    return client


SIZE = 400_000


def send_in_one_piece(*headers: tuple[bytes, bytes]) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send_json(send, 200, b"x" * SIZE, headers)

    return app


async def send_in_pieces(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(SIZE // 1000):
        await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    "app", [send_in_one_piece(), send_in_one_piece(CLOSE), send_in_pieces], ids=["whole", "last", "stream"]
)
def test_a_client_that_reads_slowly_gets_everything(running, app):
    with running(app, write_seconds=0.3) as server, connect_with_small_buffers(server) as client:
        client.sendall(GET)
        read, began = 0, time.monotonic()
        while read < SIZE:
            piece = client.recv(6000 if time.monotonic() < began + 1.5 else 1 << 20)
            assert piece, f"cut after {read} bytes and {time.monotonic() - began:.1f} s"
            read += len(piece)
            time.sleep(0.04 if time.monotonic() < began + 1.5 else 0)
        assert time.monotonic() - began > 1.2


@pytest.mark.parametrize("app", [send_in_one_piece(), send_in_one_piece(CLOSE), send_in_pieces])
def test_a_client_that_stops_reading_is_dropped(running, app):
    with running(app, write_seconds=0.3) as server, connect_with_small_buffers(server) as client:
        client.sendall(GET)
        for _ in range(5):
            client.recv(4000)
            time.sleep(0.1)
        wait_for(lambda: not server.server.server_state.connections, 3)


class SlowFirst:
    """Answers the first request when it is told to, and what follows at once, by the length of its body."""

    def __init__(self) -> None:
        self.calls = 0
        self.entered, self.cancelled, self.go = threading.Event(), threading.Event(), threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1
        if self.calls == 1:
            self.entered.set()
            try:
                await asyncio.to_thread(self.go.wait, 5)
            except asyncio.CancelledError:
                self.cancelled.set()
                self.go.set()
                raise
        await echo_length(scope, receive, send)


def post(size: int, *lines: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n" % size + b"".join(lines) + b"\r\n"


EXPECT = b"expect: 100-continue\r\n"


@pytest.mark.parametrize(
    "queued",
    [GET, GET * 10, post(10), post(10) + b"abc", post(90_000) + b"x" * 50_000, post(10, EXPECT), GET[:10]],
    ids=["whole", "many", "head", "half a body", "half a large body", "waiting for a word", "half a head"],
)
def test_a_client_that_leaves_is_noticed_behind_a_queued_request(running, queued):
    app = SlowFirst()
    with running(app, body_seconds=20) as server:
        client = server.connect()
        client.sendall(GET)
        assert app.entered.wait(5)
        client.setblocking(False)
        with suppress(BlockingIOError):
            while queued:
                queued = queued[client.send(queued) :]
        time.sleep(0.1)
        client.close()
        assert app.cancelled.wait(1.5)
        wait_for(lambda: not server.server.server_state.connections)
        assert app.calls == 1


@pytest.mark.parametrize("sent", [0, 3, 300_000])
def test_half_a_body_behind_a_slow_request_is_not_late(running, sent):
    app, size = SlowFirst(), 600_000
    with running(app, body_seconds=0.4, header_seconds=0.4) as server, server.connect() as client:
        client.sendall(GET + post(size) + b"x" * sent)
        assert app.entered.wait(5)
        time.sleep(0.8)
        app.go.set()
        assert read_response(client)[::2] == (200, b"0")
        client.sendall(b"x" * (size - sent))
        assert read_response(client)[::2] == (200, b"%d" % size)


def test_a_body_that_does_not_come_is_late_once_the_request_before_it_is_answered(running):
    app = SlowFirst()
    with running(app, body_seconds=0.3) as server, server.connect() as client:
        app.go.set()
        client.sendall(GET + post(10) + b"abc")
        assert read_response(client)[::2] == (200, b"0")
        assert read_response(client)[0] == 408


@pytest.mark.parametrize("before", [b"", GET], ids=["alone", "queued"])
def test_a_client_that_waits_for_a_word_is_not_late(running, before):
    app = SlowFirst()
    with running(app, body_seconds=0.3) as server, server.connect() as client:
        client.sendall(before + post(3, EXPECT))
        assert app.entered.wait(5)
        time.sleep(0.6)
        app.go.set()
        said = b""
        while not said.endswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
            said += read_piece(client, said)
        assert said.count(b"HTTP/1.1 200") == len(before) // len(GET)
        client.sendall(b"abc")
        assert read_response(client)[::2] == (200, b"3")


def test_a_body_in_many_pauses_has_one_deadline(running):
    """Reading is paused and resumed while a body comes; its deadline does not begin again each time."""

    async def read_slowly(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.1)
        await echo_length(scope, receive, send)

    with running(read_slowly, body_seconds=0.5) as server, server.connect() as client:
        client.sendall(post(800_000))
        began = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(8):
                client.sendall(b"x" * 99_000)
                time.sleep(0.25)
        assert read_response(client)[0] == 408
        assert time.monotonic() - began < 3.5


BIG_HEAD = b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 5000 + b"\r\n\r\n"


@pytest.mark.parametrize("before", [GET, post(3) + b"abc", GET * 3], ids=["GET", "body", "three"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_the_head_of_a_later_request_is_bounded_too(echo, before, pieces):
    whole = before + BIG_HEAD
    with echo.connect() as client:
        at = len(whole) if pieces == 1 else len(before) + 3000
        client.sendall(whole[:at])
        time.sleep(0.05)
        client.sendall(whole[at:])
        data = read_all(client)
        assert data.count(b"HTTP/1.1 200") == before.count(b"HTTP/1.1")
        assert data.count(b"HTTP/1.1 431") == 1
        assert data.index(b"HTTP/1.1 431") > data.rindex(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "junk", [b"junk\r\n\r\n", CHUNKED + b"x: y\r\n\r\n", BIG_HEAD], ids=["junk", "trailer", "head"]
)
def test_a_refusal_waits_for_the_answers_before_it(running, junk):
    app = SlowFirst()
    with running(app, header_bytes=4096) as server, server.connect() as client:
        client.sendall(GET + GET + junk)
        assert app.entered.wait(5)
        time.sleep(0.1)
        app.go.set()
        data = read_all(client)
        assert [part[:1] for part in data.split(b"HTTP/1.1 ")[1:]] == [b"2", b"2", b"4"]


def test_a_connection_takes_only_so_many_requests_ahead(running):
    app = SlowFirst()
    with running(app) as server, server.connect() as client:
        client.sendall(GET * 4000)
        assert app.entered.wait(5)
        time.sleep(0.2)
        (connection,) = server.server.server_state.connections
        assert len(connection.pipeline) <= MAX_QUEUED
        app.go.set()
        data = read_all(client)
        assert data.count(b"HTTP/1.1 200 OK") == MAX_QUEUED + 1
        assert data.count(b"connection: close") == 1


async def refuse_at_once(scope: Any, receive: Any, send: Any) -> None:
    await send_json(send, 401, b"{}")


@pytest.mark.parametrize("body", [b"", b"x" * 100_000], ids=["not sent", "sent anyway"])
def test_an_answer_before_an_announced_body_ends_the_connection(running, body):
    with running(refuse_at_once) as server, server.connect() as client:
        client.sendall(post(100_000, EXPECT))
        status, headers, _ = read_response(client)
        assert (status, headers["connection"]) == (401, "close")
        client.sendall(body)
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(GET)
        assert read_all(client) == b""
        wait_for(lambda: not server.server.server_state.connections, 20)


def test_an_announced_body_that_was_sent_at_once_keeps_the_connection(running):
    with running(refuse_at_once) as server, server.connect() as client:
        client.sendall(post(3, EXPECT) + b"abc")
        assert "connection" not in read_response(client)[1]
        client.sendall(GET)
        assert read_response(client)[0] == 401


def test_the_last_answer_is_read_although_the_client_is_still_sending(running):
    with running(refuse_at_once) as server, server.connect() as client:
        client.sendall(post(3_000_000, b"connection: close\r\n"))
        for _ in range(10):
            client.sendall(b"x" * 100_000)
            time.sleep(0.01)
        assert read_response(client)[0] == 401


# Random conversations: whatever comes in whatever pieces, answers come in order, each to its own question.


async def answer_with_mark(scope: Any, receive: Any, send: Any) -> None:
    """The mark of the request and the length of its body; some answer before they have it, some after a while."""
    headers = dict(scope["headers"])
    mark = headers.get(b"x-mark", b"none")
    if headers.get(b"x-early"):
        await send_json(send, 200, b"<%s>" % mark)
        return
    if headers.get(b"x-slow"):
        await asyncio.sleep(0.03)
    size = len(await receive_body(scope, receive))
    await send_json(send, 200, b"<%s:%d>" % (mark, size))


def make_message(dice: random.Random, number: int) -> tuple[bytes, bool]:
    """A request, and whether it is one that is refused or ends the connection."""
    lines = [b"host: a", b"x-mark: %d" % number]
    for line in (b"x-slow: 1", b"x-early: 1", b"expect: 100-continue", b"connection: close"):
        if dice.random() < 0.12:
            lines.append(line)
    body, last = b"", False
    kind = dice.choice(("none", "none", "length", "chunked", "large", "trailer", "junk", "big head"))
    if kind in ("length", "large"):
        body = b"x" * (dice.randint(0, 50) if kind == "length" else 70_000)
        lines.append(b"content-length: %d" % len(body))
    elif kind in ("chunked", "trailer"):
        lines.append(b"transfer-encoding: chunked")
        body = b"".join(b"%x\r\n%s\r\n" % (size, b"c" * size) for size in (1, 5, 30)) + b"0\r\n"
        body += b"\r\n" if kind == "chunked" else b"x-late: 1\r\n\r\n"
        last = kind == "trailer"
    elif kind == "big head":
        lines, last = [*lines, b"x-big: " + b"b" * 5000], True
    elif kind == "junk":
        return b"\x00junk\r\n\r\n", True
    method = b"POST" if body else b"GET"
    return method + b" / HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body, last


def converse(server: Running, dice: random.Random) -> tuple[bytes, int]:
    """Send some requests in random pieces, perhaps leave in the middle; what came back, and how many were sent."""
    sent = 0
    whole = b""
    for number in range(dice.randint(1, 6)):
        message, last = make_message(dice, number)
        whole += message
        sent += 1
        if last:
            break
    if dice.random() < 0.2:
        whole = whole[: dice.randint(1, len(whole))]
    with server.connect() as client:
        client.settimeout(0.6)
        at = 0
        with suppress(OSError):
            while at < len(whole):
                size = dice.choice((1, 7, 60, 1000, 20_000, 100_000))
                client.sendall(whole[at : at + size])
                at += size
                if dice.random() < 0.05:
                    time.sleep(0.01)
        data = b""
        if dice.random() < 0.9:
            with suppress(OSError):
                while piece := client.recv(65536):
                    data += piece
    return data, sent


@pytest.mark.parametrize("seed", range(25))
def test_answers_come_in_order_however_requests_come(running, seed, caplog):
    dice = random.Random(seed)
    with (
        caplog.at_level(logging.WARNING),
        running(answer_with_mark, header_bytes=4096, header_seconds=0.4, body_seconds=0.4) as server,
    ):
        for _ in range(3):
            data, sent = converse(server, dice)
            data = data.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
            answers = data.split(b"HTTP/1.1 ")[1:]
            marks = [int(found) for found in re.findall(rb"<(\d+)", data)]
            assert marks == list(range(len(marks)))
            assert len(answers) <= sent
            statuses = [int(answer[:3]) for answer in answers]
            assert statuses[: len(marks)] == [200] * len(marks), statuses
            assert all(status >= 400 for status in statuses[len(marks) :])
            assert len(statuses) - len(marks) <= 1
        wait_for(lambda: not server.server.server_state.tasks, 20)
        wait_for(lambda: not server.server.server_state.connections, 20)
    assert [one.message for one in caplog.records if one.levelno > logging.INFO] == []


def test_a_slow_client_gets_all_of_a_last_answer_that_came_early(running):
    """It takes longer than the connection lingers, and longer than a client may read nothing."""
    with running(send_in_one_piece(), write_seconds=0.5) as server, connect_with_small_buffers(server) as client:
        client.sendall(post(100_000, EXPECT))
        read, began = 0, time.monotonic()
        while piece := client.recv(12_000):
            read += len(piece)
            time.sleep(0.1 if time.monotonic() < began + 2.6 else 0)
        assert read > SIZE
        assert time.monotonic() - began > 2.4
        wait_for(lambda: not server.server.server_state.connections, 20)
