"""What the pool keeps, for how long and for whom; opening connections."""

import asyncio
import ssl
from pathlib import Path

import pytest

from gateway.domain.upstream import UpstreamRequest
from gateway.upstreams import http_pool
from gateway.upstreams.endpoint import Dialer, Endpoint, parse_endpoint
from gateway.upstreams.http_connection import ConnectionState, HttpConnection
from gateway.upstreams.http_parser import NoReplyFault
from gateway.upstreams.http_pool import ConnectionPool
from tests.unit.upstreams.scripted_server import Peer, Server, listening, polite, raw, talking, upstream_at, whole

CERTIFICATE = Path(__file__).with_name("loopback.pem")  # of 127.0.0.1, with its key; trusted by these tests alone


async def ask_at_once(upstream, count: int) -> None:
    await asyncio.gather(*(whole(upstream) for _ in range(count)))


async def count_open(server: Server) -> int:
    """How many connections the server still has, once ends have come through."""
    await asyncio.sleep(0.02)
    return sum(not peer.reader.at_eof() for peer in server.peers)


async def test_the_connection_that_was_used_last_is_used_first() -> None:
    used: list[int] = []

    async def act(peer: Peer) -> None:
        while True:
            await peer.request()
            used.append(peer.number)
            await asyncio.sleep(0.02 * (peer.number + 1))  # so that they return in the order of their numbers
            await peer.answer(b"ok")

    async with talking(act) as (upstream, _):
        await ask_at_once(upstream, 3)
        await whole(upstream)
        await whole(upstream)
    assert used[3:] == [2, 2]


async def test_idle_connections_are_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "KEEPALIVE_SECONDS", 0.5)
    async with talking(polite) as (upstream, server):
        await ask_at_once(upstream, 3)
        for _ in range(7):
            await asyncio.sleep(0.1)
            await whole(upstream)
        assert await count_open(server) == 1
        await asyncio.sleep(0.7)
        assert await count_open(server) == 0
        await whole(upstream)
    assert len(server.peers) == 4


async def test_only_so_many_idle_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "MAX_IDLE", 2)
    async with talking(polite) as (upstream, server):
        await ask_at_once(upstream, 5)
        assert len(server.peers) == 5
        assert await count_open(server) == 2


async def test_nothing_is_kept_of_connections_that_are_gone() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"ok")

    async with listening(act) as server:
        pool = ConnectionPool(Dialer(parse_endpoint(f"http://127.0.0.1:{server.port}/"), 1), 4096)
        for account in ("a", "b", None):
            connection = await pool.connect(account)
            connection.send(b"GET / HTTP/1.1\r\n\r\n", b"", Discard())
        await asyncio.sleep(0.05)
        assert (pool._idle, pool._idle_count, pool._open) == ({}, 0, set())
        await pool.close()


class Discard:
    """A sink that nobody reads."""

    def receive_head(self, status: int, headers: dict[str, str]) -> None: ...
    def receive_body(self, data: bytes) -> None: ...
    def receive_whole(self, reply: object) -> None: ...
    def complete(self) -> None: ...
    def fail(self, fault: Exception) -> None: ...


async def test_a_server_that_speaks_first_is_not_asked() -> None:
    async with listening(polite) as server:
        pool = ConnectionPool(Dialer(parse_endpoint(f"http://127.0.0.1:{server.port}/"), 1), 4096)
        connection = await pool.connect(None)
        connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        assert connection.state is ConnectionState.CLOSED
        with pytest.raises(NoReplyFault):
            connection.send(b"GET / HTTP/1.1\r\n\r\n", b"", Discard())
        await pool.close()


async def test_a_pool_that_is_closed_opens_nothing() -> None:
    async with listening(polite) as server:
        pool = ConnectionPool(Dialer(parse_endpoint(f"http://127.0.0.1:{server.port}/"), 1), 4096)
        coming = asyncio.create_task(pool.connect(None))
        await asyncio.sleep(0)
        await pool.close()
        connection = await coming
        assert connection.state is ConnectionState.CLOSED
        with pytest.raises(OSError, match="closed"):
            await pool.connect(None)


async def test_a_large_body_is_handed_over_as_the_server_takes_it() -> None:
    most = 0

    async def act(peer: Peer) -> None:
        nonlocal most
        _, body = await peer.request()
        await peer.answer(b"%d" % len(body))

    class Watched(HttpConnection):
        def _write_more(self) -> None:
            nonlocal most
            super()._write_more()
            assert self._transport is not None
            most = max(most, self._transport.get_write_buffer_size())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_pool, "HttpConnection", Watched)
        async with talking(act) as (upstream, _):
            assert await whole(upstream, UpstreamRequest("/x", b"x" * 30_000_000)) == b"30000000"
    assert 0 < most < 1_000_000


async def test_addresses_are_tried_in_turn_and_the_one_that_worked_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.9", "127.0.0.1", "127.0.0.8")]

    async with listening(polite) as server:
        loop = asyncio.get_running_loop()
        dialer = Dialer(Endpoint("h", server.port, False, "h", "", ""), 2)
        with pytest.MonkeyPatch.context() as patch:
            try:
                patch.setattr(loop, "getaddrinfo", resolve)
            except AttributeError:
                pytest.skip("uvloop's methods cannot be replaced")
            for _ in range(2):
                (await dialer.open(lambda: HttpConnection(Forgetful(), None, 4096))).close()
            assert await dialer._resolve() == ["127.0.0.1", "127.0.0.9", "127.0.0.8"]


class Forgetful:
    """Keeps no connection."""

    def keep(self, connection: HttpConnection) -> None: ...
    def forget(self, connection: HttpConnection) -> None: ...


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("https://api.example.com/v1/", Endpoint("api.example.com", 443, True, "api.example.com", "/v1", "")),
        ("http://h:8080/a b/?v=1", Endpoint("h", 8080, False, "h:8080", "/a%20b", "v=1")),
        ("https://h:443", Endpoint("h", 443, True, "h", "", "")),
        ("http://[::1]:80/x", Endpoint("::1", 80, False, "[::1]", "/x", "")),
        ("http://[::1]:81/x", Endpoint("::1", 81, False, "[::1]:81", "/x", "")),
        (
            "https://bücher.example/%C3%A4",
            Endpoint("xn--bcher-kva.example", 443, True, "xn--bcher-kva.example", "/%C3%A4", ""),
        ),
    ],
)
def test_a_base_url_is_taken_apart(url: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(url) == endpoint


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
async def test_tls_checks_the_server_and_resumes_its_session(
    version: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    context.maximum_version = version
    resumed: list[bool] = []

    async def act(peer: Peer) -> None:
        resumed.append(peer.writer.get_extra_info("ssl_object").session_reused)
        for _ in range(2):
            await peer.request()
            await peer.answer(b"ok")

    server = Server(act)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    try:
        stranger = upstream_at(f"https://127.0.0.1:{port}/v1")
        with pytest.raises(Exception, match="cannot be reached"):
            await whole(stranger)
        await stranger.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        upstream = upstream_at(f"https://127.0.0.1:{port}/v1")
        for _ in range(5):
            assert await whole(upstream) == b"ok"
            await asyncio.sleep(0.02)
        await upstream.close()
    finally:
        listener.close()
        await listener.wait_closed()
    assert resumed == [False, True, True]


async def test_a_body_that_ends_with_a_tls_connection_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server = Server(raw(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it", then="close"))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    upstream = upstream_at(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1")
    assert await whole(upstream) == b"all of it"
    await upstream.close()
    listener.close()
    await listener.wait_closed()


async def test_a_name_that_is_not_the_server_s_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    listener = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.2", 0, ssl=context)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    dialer = Dialer(parse_endpoint(f"https://127.0.0.2:{listener.sockets[0].getsockname()[1]}/"), 2)
    with pytest.raises(ssl.SSLCertVerificationError):
        await dialer.open(lambda: HttpConnection(Forgetful(), None, 4096))
    listener.close()
    await listener.wait_closed()
