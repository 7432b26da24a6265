"""The upstream client against odd and hostile servers.

Every case sends two requests: what becomes of the first is in the case, the second always gets its own answer. What the
first reply leaves behind shows in the number of connections: one if the connection was used again, else two.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from gateway import errors
from gateway.domain.upstream import UpstreamRequest
from gateway.settings import LimitSettings, TimeoutSettings
from gateway.upstreams.openai import OpenAIUpstream
from tests.unit.upstreams.scripted_server import SHORT, Act, Peer, listening, talking, upstream_at

FIRST, SECOND = UpstreamRequest("/chat/completions", b"first"), UpstreamRequest("/chat/completions", b"second")
HEAD_REQUEST = UpstreamRequest("/models", b"", method="HEAD")
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
FOREIGN = OK + b"Content-Length: 9\r\n\r\nnot yours"
LIMITS = LimitSettings(header_bytes=4096)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a caller sees: a body, or the class of an error."""

    body: bytes | None = None
    error: str = ""


INVALID, TRUNCATED = Outcome(error="UpstreamInvalid"), Outcome(error="UpstreamTruncated")
UNREACHABLE, TIMEOUT = Outcome(error="UpstreamUnreachable"), Outcome(error="UpstreamTimeout")


@dataclass(frozen=True, slots=True)
class Case:
    """A reply, what a caller should see of it, and whether its connection may be used again."""

    name: str
    reply: bytes
    outcome: Outcome
    reused: bool = False
    then: str = "hold"  # or close, half-close, reset
    request: UpstreamRequest = FIRST


def good(name: str, reply: bytes, body: bytes = b"mine", *, reused: bool = True, **more) -> Case:
    return Case(name, reply, Outcome(body), reused, **more)


WHOLE = [
    good("length", OK + b"Content-Length: 4\r\n\r\nmine"),
    good("length of zero", OK + b"Content-Length: 0\r\n\r\n", b""),
    good("length with zeros in front", OK + b"Content-Length: 0004\r\n\r\nmine"),
    good("length with spaces around", OK + b"Content-Length:  4 \t\r\n\r\nmine"),
    good("chunked", CHUNKED + b"4\r\nmine\r\n0\r\n\r\n"),
    good("chunked, no data", CHUNKED + b"0\r\n\r\n", b""),
    good("chunked, a byte each", CHUNKED + b"1\r\nm\r\n1\r\ni\r\n1\r\nn\r\n1\r\ne\r\n0\r\n\r\n"),
    good("chunked, zeros in front of the size", CHUNKED + b"00004\r\nmine\r\n000\r\n\r\n"),
    good("chunk extension", CHUNKED + b'4;a=b;c="d"\r\nmine\r\n0;last\r\n\r\n'),
    good("chunked in capitals", OK + b"TRANSFER-ENCODING: Chunked\r\n\r\n4\r\nmine\r\n0\r\n\r\n"),
    good("trailers", CHUNKED + b"4\r\nmine\r\n0\r\nX-Request-ID: trailer\r\nX-B: b\r\n\r\n"),
    good("data that looks like an end", CHUNKED + b"5\r\n0\r\n\r\n\r\n0\r\n\r\n", b"0\r\n\r\n"),
    good("data that ends in a line feed", CHUNKED + b"5\r\nmine\n\r\n0\r\n\r\n", b"mine\n"),
    good("no reason phrase", b"HTTP/1.1 200\r\nContent-Length: 4\r\n\r\nmine"),
    good("no content", b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    good("no content, and says so", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b""),
    good("kept in HTTP/1.0", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nmine"),
    good("continue", b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 4\r\n\r\nmine"),
    good(
        "early hints",
        b"HTTP/1.1 103 Early Hints\r\nX-Request-ID: hint\r\n\r\n" * 3 + CHUNKED + b"4\r\nmine\r\n0\r\n\r\n",
    ),
    good("reply to HEAD", OK + b"Content-Length: 4\r\n\r\n", b"", request=HEAD_REQUEST),
    good("chunked reply to HEAD", CHUNKED, b"", request=HEAD_REQUEST),
    good("bytes above 127 in a value", OK + b"X-Name: \xc3\xa4\xff\r\nContent-Length: 4\r\n\r\nmine"),
    good("several cookies", OK + b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 4\r\n\r\nmine"),
]
LAST = [
    good("HTTP/1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nmine", reused=False),
    good("connection: close", OK + b"Connection: close\r\nContent-Length: 4\r\n\r\nmine", reused=False),
    good("close among others", OK + b"Connection: x, Close\r\nContent-Length: 4\r\n\r\nmine", reused=False),
    good(
        "chunked and closed",
        OK + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmine\r\n0\r\n\r\n",
        reused=False,
    ),
    good("length, then FIN", OK + b"Content-Length: 4\r\n\r\nmine", reused=False, then="half-close"),
    good("until close", OK + b"\r\nmine", reused=False, then="close"),
    good("until half-close", OK + b"\r\nmine", reused=False, then="half-close"),
    good("until close, HTTP/1.0", b"HTTP/1.0 200 OK\r\n\r\nmine", reused=False, then="close"),
    good("until close, nothing", OK + b"\r\n", b"", reused=False, then="close"),
    Case("until a reset", OK + b"\r\nmine", TRUNCATED, then="reset"),
]
# One caller's bytes too many are the next one's answer.
LEFTOVER = [
    good("length and a byte", OK + b"Content-Length: 4\r\n\r\nmine!", reused=False),
    good("length and a line end", OK + b"Content-Length: 4\r\n\r\nmine\r\n", reused=False),
    good("length and another reply", OK + b"Content-Length: 4\r\n\r\nmine" + FOREIGN, reused=False),
    good("no body and another reply", OK + b"Content-Length: 0\r\n\r\n" + FOREIGN, b"", reused=False),
    good("no content and another reply", b"HTTP/1.1 204 No Content\r\n\r\n" + FOREIGN, b"", reused=False),
    good("no content and content", b"HTTP/1.1 204 No Content\r\n\r\nmine", b"", reused=False),
    good("chunked and a line feed", CHUNKED + b"4\r\nmine\r\n0\r\n\r\n\n", reused=False),
    good("chunked and a line end", CHUNKED + b"4\r\nmine\r\n0\r\n\r\n\r\n", reused=False),
    good("chunked and a byte", CHUNKED + b"4\r\nmine\r\n0\r\n\r\n!", reused=False),
    good("chunked and another chunk", CHUNKED + b"4\r\nmine\r\n0\r\n\r\n9\r\nnot yours\r\n", reused=False),
    good("chunked and another reply", CHUNKED + b"4\r\nmine\r\n0\r\n\r\n" + FOREIGN, reused=False),
    good(
        "chunked and a chunked one",
        CHUNKED + b"4\r\nmine\r\n0\r\n\r\n" + CHUNKED + b"3\r\nnot\r\n0\r\n\r\n",
        reused=False,
    ),
    good("HEAD and a body", OK + b"Content-Length: 4\r\n\r\nmine", b"", reused=False, request=HEAD_REQUEST),
    good("HEAD and chunks", CHUNKED + b"4\r\nmine\r\n0\r\n\r\n", b"", reused=False, request=HEAD_REQUEST),
    good(
        "closed and another reply", OK + b"Connection: close\r\nContent-Length: 4\r\n\r\nmine" + FOREIGN, reused=False
    ),
]


def head(*lines: bytes) -> bytes:
    return OK + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


UNTRUSTED = {
    "length and chunked": head(b"Content-Length: 4", b"Transfer-Encoding: chunked") + b"4\r\nmine\r\n0\r\n\r\n",
    "chunked and length": head(b"Transfer-Encoding: chunked", b"Content-Length: 4") + b"4\r\nmine\r\n0\r\n\r\n",
    "two lengths": head(b"Content-Length: 4", b"Content-Length: 5") + b"mine!",
    "two lengths in one": head(b"Content-Length: 4, 5") + b"mine!",
    "the same length twice": head(b"Content-Length: 4", b"Content-Length: 4") + b"mine",
    "a negative length": head(b"Content-Length: -4") + b"mine",
    "a length with a sign": head(b"Content-Length: +4") + b"mine",
    "a hexadecimal length": head(b"Content-Length: 0x4") + b"mine",
    "an empty length": head(b"Content-Length: ") + b"mine",
    "a length with a gap": head(b"Content-Length: 4 4") + b"mine",
    "a length beyond 64 bits": head(b"Content-Length: 18446744073709551620") + b"mine",
    "a length in other digits": head("Content-Length: ٤".encode()) + b"mine",
    "compressed and chunked": head(b"Transfer-Encoding: gzip, chunked") + b"4\r\nmine\r\n0\r\n\r\n",
    "chunked and compressed": head(b"Transfer-Encoding: chunked, gzip") + b"4\r\nmine\r\n0\r\n\r\n",
    "chunked twice": head(b"Transfer-Encoding: chunked, chunked") + b"4\r\nmine\r\n0\r\n\r\n",
    "chunked in two headers": head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked")
    + b"4\r\nmine\r\n0\r\n\r\n",
    "identity, then chunked": head(b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "an unknown encoding": head(b"Transfer-Encoding: xchunked") + b"4\r\nmine\r\n0\r\n\r\n",
    "an encoding with a vertical tab": head(b"Transfer-Encoding: \x0bchunked") + b"4\r\nmine\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmine\r\n0\r\n\r\n",
    "a folded header": head(b"X-A: a", b" b", b"Content-Length: 4") + b"mine",
    "a folded length": head(b"Content-Length:", b" 4") + b"mine",
    "a NUL in a value": head(b"X-A: a\0b", b"Content-Length: 4") + b"mine",
    "a NUL in a name": head(b"X-\0A: a", b"Content-Length: 4") + b"mine",
    "a space before the colon": head(b"Content-Length : 4") + b"mine",
    "a header without a colon": head(b"Content-Length 4") + b"mine",
    "a header without a name": head(b": 4", b"Content-Length: 4") + b"mine",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 4\n\nmine",
    "a bare line feed in the head": b"HTTP/1.1 200 OK\r\nX-A: a\nContent-Length: 4\r\n\r\nmine",
    "a bare carriage return": b"HTTP/1.1 200 OK\r\nX-A: a\rContent-Length: 4\r\n\r\nmine",
    "an empty line first": b"\r\n" + OK + b"Content-Length: 4\r\n\r\nmine",
    "two empty lines first": b"\r\n\r\n" + OK + b"Content-Length: 4\r\n\r\nmine",
    "HTTP/2": b"HTTP/2.0 200 OK\r\nContent-Length: 4\r\n\r\nmine",
    "HTTP/1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 4\r\n\r\nmine",
    "HTTP/0.9": b"mine and mine alone\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "status 99": b"HTTP/1.1 099 Odd\r\nContent-Length: 4\r\n\r\nmine",
    "status 20": b"HTTP/1.1 20 OK\r\nContent-Length: 4\r\n\r\nmine",
    "status 2000": b"HTTP/1.1 2000 OK\r\nContent-Length: 4\r\n\r\nmine",
    "status without a number": b"HTTP/1.1 OK\r\nContent-Length: 4\r\n\r\nmine",
    "a switch of protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "a switch without a name": b"HTTP/1.1 101 Switching Protocols\r\n\r\nmine",
    "no content with chunks": b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmine\r\n0\r\n\r\n",
    "no content with a length": b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nmine",
    "an interim reply with a body": b"HTTP/1.1 103 Hints\r\nContent-Length: 4\r\n\r\nmine" + FOREIGN,
    "a large field": head(b"X-A: " + b"a" * 5000, b"Content-Length: 4") + b"mine",
    "a large name": head(b"X" * 5000 + b": a", b"Content-Length: 4") + b"mine",
    "many fields": head(*[b"X-%d: aaaaaaaaaaaaaaaaaaaaaaaa" % n for n in range(200)], b"Content-Length: 4") + b"mine",
    "a long reason": b"HTTP/1.1 200 " + b"O" * 5000 + b"\r\nContent-Length: 4\r\n\r\nmine",
    "many interim replies": b"HTTP/1.1 103 Hints\r\nX-A: aaaaaaaa\r\n\r\n" * 200 + FOREIGN,
}
BROKEN = {
    "a chunk size that is no number": CHUNKED + b"4\r\nmine\r\nzz\r\n",
    "a negative chunk size": CHUNKED + b"4\r\nmine\r\n-4\r\nmine\r\n0\r\n\r\n",
    "an empty chunk size": CHUNKED + b"4\r\nmine\r\n\r\n0\r\n\r\n",
    "a chunk size beyond 64 bits": CHUNKED + b"10000000000000004\r\nmine\r\n0\r\n\r\n",
    "a chunk size with a prefix": CHUNKED + b"0x4\r\nmine\r\n0\r\n\r\n",
    "a chunk that is longer than it says": CHUNKED + b"3\r\nmine\r\n0\r\n\r\n",
    "a chunk that is shorter than it says": CHUNKED + b"5\r\nmine\r\n0\r\n\r\n",
    "chunks with bare line feeds": CHUNKED + b"4\nmine\n0\n\n",
    "a broken trailer": CHUNKED + b"4\r\nmine\r\n0\r\nno colon\r\n\r\n",
    "a length in a trailer": CHUNKED + b"4\r\nmine\r\n0\r\nContent-Length: 3\r\n\r\n",
    "a folded trailer": CHUNKED + b"4\r\nmine\r\n0\r\nX-A: a\r\n b\r\n\r\n",
    "a trailer without end": CHUNKED + b"4\r\nmine\r\n0\r\nX-A: " + b"a" * 600_000,
    "trailers without end": CHUNKED + b"4\r\nmine\r\n0\r\n" + b"X-A: aaaa\r\n" * 60_000,
    "a chunk extension without end": CHUNKED + b"4\r\nmine\r\n4;" + b"a" * 600_000,
}
FOLLOWED_BY_NOBODY = [
    Case("not modified", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", INVALID, reused=True),
    Case("not modified, with a body", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nmine", INVALID),
    Case("a redirect", b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", INVALID, reused=True),
    Case("half a redirect", b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 4\r\n\r\n", INVALID),
]
CASES = [
    *WHOLE,
    *LAST,
    *LEFTOVER,
    *FOLLOWED_BY_NOBODY,
    *(Case(name, reply, INVALID) for name, reply in UNTRUSTED.items()),
    *(Case(name, reply, TRUNCATED) for name, reply in BROKEN.items()),
]


async def ask(upstream: OpenAIUpstream, request: UpstreamRequest = FIRST) -> Outcome:
    try:
        reply = await upstream.send(request)
        try:
            return Outcome(await reply.read_all())
        finally:
            await reply.close()
    except errors.UpstreamError as error:
        return Outcome(error=type(error).__name__)


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def answer_first(send: Callable[[Peer], Awaitable[None]], then: str = "hold") -> Act:
    """The first connection's first request gets what `send` sends; every other request gets its own body back."""

    async def act(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            await send(peer)
            await end(peer, then)
        else:
            await peer.answer(b"second")
        while True:
            _, body = await peer.request()
            await peer.answer(body)

    return act


async def end(peer: Peer, then: str) -> None:
    if then == "hold":
        return
    await asyncio.sleep(0.01)
    if then == "half-close":
        peer.half_close()
        await peer.reader.readexactly(1)
    elif then == "reset":
        peer.reset()
    raise ConnectionError


async def expect(case: Case, send: Callable[[Peer], Awaitable[None]] | None = None) -> None:
    """Play a case: the right outcome, then the right answer over the right connection."""

    async def send_reply(peer: Peer) -> None:
        with suppress(ConnectionError):
            await peer.send(case.reply)

    async with talking(answer_first(send or send_reply, case.then), LIMITS) as (upstream, server):
        outcome = await asyncio.wait_for(ask(upstream, case.request), 5)
        await asyncio.sleep(0.01)
        second = await asyncio.wait_for(ask(upstream, SECOND), 5)
        assert (outcome, second, len(server.peers)) == (case.outcome, Outcome(b"second"), 1 if case.reused else 2)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_reply_is_taken_for_what_it_is(case: Case) -> None:
    await expect(case)


@pytest.mark.parametrize("case", [*WHOLE, *LEFTOVER], ids=lambda case: case.name)
async def test_a_reply_that_comes_byte_by_byte_is_the_same(case: Case) -> None:
    async def trickle(peer: Peer) -> None:
        for at in range(len(case.reply)):
            peer.writer.write(case.reply[at : at + 1])
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    await expect(case, trickle)


SMALL = [
    case for case in [*WHOLE, *LAST] if case.name in {"length", "trailers", "until close", "continue", "no content"}
]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
async def test_a_reply_in_two_pieces_is_the_same_wherever_it_is_split(case: Case) -> None:
    for at in range(1, len(case.reply)):

        async def send(peer: Peer, at: int = at) -> None:
            await peer.send(case.reply[:at])
            await asyncio.sleep(0.001)
            await peer.send(case.reply[at:])

        await expect(case, send)


def foresee_cut(case: Case, at: int, then: str) -> Outcome:
    """What a caller sees of a reply that breaks off after `at` bytes."""
    body = case.reply.find(b"mine")
    body_at = len(case.reply) if body < 0 else case.reply.rindex(b"\r\n\r\n", 0, body) + 4
    if at == 0:
        return UNREACHABLE
    if at < body_at:
        return INVALID
    if case.name == "until close":
        return TRUNCATED if then == "reset" else Outcome(case.reply[body_at:at])
    return case.outcome if at == len(case.reply) else TRUNCATED


@pytest.mark.parametrize("then", ["close", "half-close", "reset"])
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
async def test_a_reply_that_breaks_off_is_never_taken_for_a_whole_one(case: Case, then: str) -> None:
    for at in range(len(case.reply) + 1):

        async def send(peer: Peer, at: int = at) -> None:
            await peer.send(case.reply[:at])
            await asyncio.sleep(0.001)

        cut = Case(case.name, case.reply, foresee_cut(case, at, then), then=then)
        await expect(cut, send)


@pytest.mark.parametrize("stray", [FOREIGN, b"\r\n", b"H", CHUNKED, b"\0", FOREIGN * 3], ids=range(6))
async def test_a_connection_on_which_something_arrives_while_idle_is_not_used_again(stray: bytes) -> None:
    async def send(peer: Peer) -> None:
        await peer.answer(b"mine")
        await asyncio.sleep(0.005)  # the reply is read, the connection idle
        await peer.send(stray)

    await expect(good("idle bytes", b"", reused=False), send)


@pytest.mark.parametrize("then", ["close", "half-close", "reset"])
async def test_a_connection_that_ends_while_idle_is_not_used_again(then: str) -> None:
    await expect(good("idle end", b"", reused=False, then=then), lambda peer: peer.answer(b"mine"))


def serve_blocking(listener: socket.socket, stray: bytes, sent: threading.Event) -> None:
    """In a thread: answer the first request, and soon after send something that nobody asked for."""
    with listener:
        first, _ = listener.accept()
        with first:
            first.settimeout(5)
            first.recv(65536)
            first.sendall(OK + b"Content-Length: 4\r\n\r\nmine")
            time.sleep(0.05)
            first.sendall(stray)
            sent.set()
            with suppress(OSError):
                second, _ = listener.accept()
                with second:
                    second.settimeout(5)
                    second.recv(65536)
                    second.sendall(OK + b"Content-Length: 6\r\n\r\nsecond")


@pytest.mark.parametrize("stray", [FOREIGN, b"\r\n"], ids=["reply", "line end"])
async def test_bytes_that_the_loop_had_no_time_to_see_are_noticed_too(stray: bytes) -> None:
    listener, sent = socket.create_server(("127.0.0.1", 0)), threading.Event()
    listener.settimeout(5)
    thread = threading.Thread(target=serve_blocking, args=(listener, stray, sent), daemon=True)
    upstream = upstream_at(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", timeouts=SHORT)
    thread.start()
    try:
        assert await ask(upstream) == Outcome(b"mine")
        sent.wait(2)  # blocks the loop on purpose
        time.sleep(0.01)  # noqa: ASYNC251
        assert await ask(upstream, SECOND) == Outcome(b"second")
    finally:
        await upstream.close()
        with suppress(OSError):
            socket.create_connection(listener.getsockname(), 1).close()  # ends a thread that still waits
        thread.join(10)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_get_and_head_carry_no_body(method: str) -> None:
    """A server that does not expect one would take it for the next request, and its answer for the next caller's."""
    smuggled = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
    seen: list[str] = []

    async def act(peer: Peer) -> None:
        while True:
            line = (await peer.reader.readuntil(b"\r\n\r\n")).decode()
            seen.append(line)
            await peer.send(OK + b"Content-Length: 0\r\n\r\n")

    async with talking(act) as (upstream, _):
        request = UpstreamRequest("/models", smuggled, (("content-type", "text/plain"),), method=method)
        assert await ask(upstream, request) == Outcome(b"")
        await asyncio.sleep(0.02)
    assert len(seen) == 1
    assert "content-length" not in seen[0]


async def test_trailers_and_interim_headers_are_not_headers() -> None:
    reply = (
        b"HTTP/1.1 103 Hints\r\nX-Request-ID: hint\r\n\r\n" + CHUNKED + b"4\r\nmine\r\n0\r\nX-Request-ID: late\r\n\r\n"
    )
    async with talking(answer_first(lambda peer: peer.send(reply))) as (upstream, _):
        taken = await upstream.send(FIRST)
        assert await taken.read_all() == b"mine"
        assert dict(taken.headers) == {"transfer-encoding": "chunked"}
        await taken.close()


@pytest.mark.parametrize("start", [b"H", b"HTTP/1.1 100 Continue\r\n\r\n", OK], ids=["a byte", "interim", "a line"])
@pytest.mark.parametrize("then", ["close", "reset"])
async def test_a_request_whose_reply_has_begun_is_not_sent_again(start: bytes, then: str) -> None:
    requests = 0

    async def act(peer: Peer) -> None:
        nonlocal requests
        await peer.request()
        await peer.answer(b"mine")
        await peer.request()
        requests += 1
        await peer.send(start)
        await end(peer, then)

    async with talking(act) as (upstream, server):
        assert await ask(upstream) == Outcome(b"mine")
        assert await ask(upstream, SECOND) == INVALID
    assert (requests, len(server.peers)) == (1, 1)


async def test_a_request_is_sent_again_once_and_over_a_new_connection() -> None:
    requests: list[int] = []

    async def act(peer: Peer) -> None:
        await peer.request()
        if peer.number < 2:
            await ready.wait()  # so that two connections are kept
            await peer.answer(b"mine")
            await peer.request()
        requests.append(peer.number)

    ready = asyncio.Event()
    async with talking(act) as (upstream, server):
        both = asyncio.gather(ask(upstream), ask(upstream))
        await wait_until(lambda: len(server.peers) == 2)
        ready.set()
        assert await both == [Outcome(b"mine")] * 2
        assert await ask(upstream, SECOND) == UNREACHABLE
    assert len(requests) == 2
    assert requests[1] == 2


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "closed"])
async def test_a_reply_may_come_before_the_request_is_sent_whole(kept: bool) -> None:
    close = b"" if kept else b"Connection: close\r\n"

    async def act(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(b"HTTP/1.1 413 Too Large\r\n" + close + b"Content-Length: 2\r\n\r\nno")
        await asyncio.sleep(5)

    async with talking(act) as (upstream, server):
        assert await ask(upstream, UpstreamRequest("/x", b"x" * 30_000_000)) == Outcome(b"no")
        assert await ask(upstream, SECOND) == Outcome(b"no")
    assert len(server.peers) == 2


async def test_a_late_reply_is_nobody_s() -> None:
    async def late(peer: Peer) -> None:
        await asyncio.sleep(0.35)
        with suppress(ConnectionError):
            await peer.send(FOREIGN)

    async with talking(answer_first(late), timeouts=SHORT) as (upstream, server):
        assert await ask(upstream) == TIMEOUT
        await asyncio.sleep(0.1)
        assert await ask(upstream, SECOND) == Outcome(b"second")
    assert len(server.peers) == 2


async def test_chunk_headers_that_trickle_do_not_put_off_the_deadline() -> None:
    async def send(peer: Peer) -> None:
        await peer.send(CHUNKED + b"4\r\nmine\r\n4;")
        with suppress(ConnectionError):
            while True:
                await peer.send(b"x")
                await asyncio.sleep(0.02)

    async with talking(answer_first(send), timeouts=SHORT) as (upstream, _):
        assert await asyncio.wait_for(ask(upstream), 2) == TIMEOUT


async def test_a_slow_stream_lives_as_long_as_it_says_something() -> None:
    async def send(peer: Peer) -> None:
        await peer.send(CHUNKED)
        for _ in range(8):
            await asyncio.sleep(0.1)
            await peer.send(b"1\r\nx\r\n")
        await peer.send(b"0\r\n\r\n")

    patient = TimeoutSettings(connect=1, first_byte=0.5, idle=0.5)
    async with talking(answer_first(send), timeouts=patient) as (upstream, _):
        assert await ask(upstream) == Outcome(b"x" * 8)


async def test_a_reply_that_is_cancelled_before_its_end_takes_its_connection_along() -> None:
    async def send(peer: Peer) -> None:
        await peer.send(CHUNKED + b"4\r\nmine\r\n")

    async with talking(answer_first(send)) as (upstream, server):
        call = asyncio.create_task(ask(upstream))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await ask(upstream, SECOND) == Outcome(b"second")
    assert len(server.peers) == 2


async def test_a_whole_reply_that_nobody_reads_leaves_its_connection() -> None:
    async with talking(answer_first(lambda peer: peer.answer(b"mine"))) as (upstream, server):
        reply = await upstream.send(FIRST)
        await asyncio.sleep(0.01)
        await reply.close()
        await reply.close()
        assert await ask(upstream, SECOND) == Outcome(b"second")
    assert len(server.peers) == 1


async def test_accounts_do_not_share_connections() -> None:
    async def act(peer: Peer) -> None:
        while True:
            head, _ = await peer.request()
            await peer.answer(f"{peer.number} {head.split('Bearer ')[1].split()[0]}".encode())

    async with talking(act, pass_bearer=True) as (upstream, _):
        requests = [UpstreamRequest("/x", b"", bearer=bearer) for bearer in ("ann", "bob", "ann", "bob")]
        bodies = [(await ask(upstream, request)).body for request in requests]
    assert bodies == [b"0 ann", b"1 bob", b"0 ann", b"1 bob"]


async def test_closing_the_upstream_ends_every_connection() -> None:
    gone: set[int] = set()

    async def act(peer: Peer) -> None:
        _, body = await peer.request()
        try:
            if body == b"idle":
                await peer.answer(b"mine")
            elif body == b"half":
                await peer.send(CHUNKED + b"4\r\nmine\r\n")
            await peer.reader.readexactly(1)
        finally:
            gone.add(peer.number)

    async with listening(act) as server, asyncio.timeout(5):
        upstream = upstream_at(f"http://127.0.0.1:{server.port}/v1")
        half, silent, idle = (
            asyncio.create_task(ask(upstream, UpstreamRequest("/x", body))) for body in (b"half", b"silent", b"idle")
        )
        assert await idle == Outcome(b"mine")
        await asyncio.sleep(0.05)
        await upstream.close()
        assert (await half, await silent) == (TRUNCATED, UNREACHABLE)
        await wait_until(lambda: len(gone) == 3)
