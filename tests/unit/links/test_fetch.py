import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from yarl import URL

from gateway.links.fetch import fetch_page, resolve_redirect
from gateway.links.guard import LinkGuard, LinkRefused
from gateway.links.page import FetchedPage, FetchError
from gateway.settings import LinkSettings

HOST = "docs.example"


class Server:
    """A loopback server that answers each request with the next raw reply and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.replies: list[bytes] = []
        self.stays_open = False
        self.port = 0

    def will(self, *replies: bytes) -> None:
        self.replies.extend(replies)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(self.replies.pop(0))
        if self.stays_open:
            await reader.read()
        writer.close()


def reply(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    fields = {"Content_Length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    yield server
    listening.close()
    await listening.wait_closed()


@pytest.fixture
def get(server: Server) -> Callable[..., Any]:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async def get(path: str = "/", limits: LinkSettings | None = None, **validators: Any) -> FetchedPage:
        url = f"http://{HOST}:{server.port}{path}"
        guard = LinkGuard([HOST, "other.example"], resolve=resolve)
        return await fetch_page(url, guard=guard, limits=limits or LinkSettings(timeout=5), **validators)

    return get


async def test_a_page_comes_as_text_with_its_validators(server, get):
    server.will(
        reply(
            b"<h1>Rules</h1><script>x</script>Be kind",
            Content_Type="text/html; charset=utf-8",
            ETag='"1"',
            Last_Modified="Mon",
        )
    )
    assert await get("/rules?a=b") == FetchedPage(200, "# Rules\n\nBe kind", "text/html", '"1"', "Mon")


async def test_the_request_says_who_asks_and_nothing_else(server, get, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.will(reply(b"x", Content_Type="text/plain"))
    await get("/rules?a=b")
    first, *lines = server.requests[0].strip().split("\r\n")
    sent = dict(line.split(": ", 1) for line in lines)
    assert first == "GET /rules?a=b HTTP/1.1"
    assert set(sent) <= {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"}
    assert (sent["Host"], sent["Accept-Encoding"]) == (f"{HOST}:{server.port}", "identity")


async def test_an_unchanged_page_is_not_sent_again(server, get):
    server.will(reply(status="304 Not Modified"))
    assert await get(etag='"1"', last_modified="Mon") == FetchedPage(304, None, "", '"1"', "Mon")
    assert 'If-None-Match: "1"\r\n' in server.requests[0]
    assert "If-Modified-Since: Mon\r\n" in server.requests[0]


async def test_a_304_that_nobody_asked_for_is_an_error(server, get):
    server.will(reply(status="304 Not Modified"))
    with pytest.raises(FetchError, match="304"):
        await get()


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain", b"a <b>", "a <b>"),
        ("text/markdown; charset=UTF-8", "# Grüße".encode(), "# Grüße"),
        ("text/plain; charset=iso-8859-1", b"Gr\xfc\xdfe", "Grüße"),
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/ld+json", b"{}", "{}"),
        ("application/xhtml+xml", b"<p>x</p>", "x"),
        ("TEXT/HTML;charset='windows-1252'", b"<p>\x80</p>", "€"),
    ],
)
async def test_text_is_taken_in_its_charset(server, get, kind, body, text):
    server.will(reply(body, Content_Type=kind))
    assert (await get()).text == text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(b"x"), "content type"),
        (reply(b"x", Content_Type="image/png"), "image/png"),
        (reply(b"x", Content_Type="application/octet-stream"), "octet-stream"),
        (reply(b"x", Content_Type="nonsense"), "nonsense"),
        (reply(b"\xff", Content_Type="text/plain"), "cannot be read"),
        (reply(b"a\0b", Content_Type="text/plain"), "NUL"),
        (reply(gzip.compress(b"x"), Content_Type="text/plain", Content_Encoding="gzip"), "compressed"),
        (reply(b"x", Content_Type="text/plain", Content_Encoding="br"), "compressed"),
        (reply(b"x" * 2000, Content_Type="text/plain"), "larger than"),
        (reply(status="404 Not Found"), "answered 404"),
        (reply(status="500 Oops"), "answered 500"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "cannot be reached"),
        (reply(b"x", Content_Type="text/plain", Content_Length="50"), "cannot be reached"),
    ],
)
async def test_an_answer_that_is_of_no_use_is_an_error(server, get, answer, reason):
    server.will(answer)
    with pytest.raises(FetchError, match=reason):
        await get(limits=LinkSettings(timeout=5, max_bytes=1000))


async def test_redirects_are_followed_by_hand(server, get):
    server.will(
        reply(status="301 Moved", Location="/b"),
        reply(status="302 Found", Location=f"//other.example:{server.port}/c"),
        reply(status="307 Again", Location="?d"),
        reply(b"here", Content_Type="text/plain"),
    )
    assert (await get("/a")).text == "here"
    assert [request.split()[1] for request in server.requests] == ["/a", "/b", "/c", "/c?d"]
    assert f"Host: other.example:{server.port}\r\n" in server.requests[2]


async def test_cookies_are_not_carried_to_the_next_hop(server, get):
    server.will(
        reply(status="302 Found", Location="/b", Set_Cookie="a=b; Path=/"), reply(b"x", Content_Type="text/plain")
    )
    await get()
    assert "cookie" not in server.requests[1].lower()


async def test_a_ring_of_redirects_ends(server, get):
    server.will(*[reply(status="302 Found", Location="/")] * 9)
    with pytest.raises(FetchError, match="more than 5 times"):
        await get()
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    "location", ["", "http://[", "http://a\tb/", "ftp://other.example/", "http://user@other.example/"]
)
async def test_a_redirect_to_something_odd_is_refused(server, get, location):
    server.will(reply(status="302 Found", Location=location))
    with pytest.raises(LinkRefused):
        await get()


async def test_tls_names_the_host_and_not_the_address():
    hello: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not hello.done():
            hello.set_result(await reader.read(4096))
        writer.close()

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(FetchError):
            await fetch_page(
                f"https://{HOST}:{port}/", guard=LinkGuard([HOST], resolve=resolve), limits=LinkSettings(timeout=5)
            )
    assert HOST.encode() in await hello  # the ClientHello carries the name in the clear


@pytest.mark.parametrize("location", ["http://docs.example/", "HTTP://docs.example/", "ftp://docs.example/"])
def test_a_redirect_away_from_https_is_refused(location):
    with pytest.raises(LinkRefused, match="insecure"):
        resolve_redirect(URL("https://docs.example/a"), location)


def test_a_redirect_to_https_is_followed():
    assert resolve_redirect(URL("http://docs.example/a"), "https://docs.example/b") == "https://docs.example/b"


async def test_a_silent_server_is_given_up(server, get):
    server.will(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nx")
    server.stays_open = True
    with pytest.raises(FetchError, match=r"longer than 0\.2 seconds"):
        await get(limits=LinkSettings(timeout=0.2))


async def test_a_closed_port_is_an_error(get, server):
    server.port = 1
    with pytest.raises(FetchError, match="cannot be reached"):
        await get()
