"""A request whose head is known is read as the parser would have read it, however its bytes arrive."""

import asyncio
import random
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import orjson
import pytest

from gateway.edge.access import AccessControl, HostCheck
from gateway.edge.auth import Authenticator
from gateway.edge.known_heads import MAX_HEAD, MAX_KNOWN, PATIENCE, ConnectionHeads, KnownHead, KnownHeads, outline_head
from gateway.edge.paths import DirectTarget
from gateway.edge.request import ClientRequest, FoundEndpoint, read_head
from gateway.edge.response import JSON
from gateway.edge.server import build_server
from gateway.errors import InvalidApiKey
from gateway.settings import AuthSettings, KeySettings, LimitSettings, Settings

PATH = "/v1/chat/completions"
SEQUENCES, REQUESTS = 150, 9
MAX_BODY = 1000
LONGEST = 10**9


class Echo:
    """Answers with what it was asked, apart from the length that the body was announced with."""

    path = PATH

    def __init__(self) -> None:
        self.known = 0  # requests whose head was

    async def serve(self, request: ClientRequest) -> None:
        self.known += request.head is not None
        head = request.head or read_head(request.headers)
        body = await request.read_body(head, MAX_BODY)
        lines = [[name.decode(), value.decode()] for name, value in request.headers if name != b"content-length"]
        said = [request.method, lines, body.decode(), [pair[0].decode() for pair in head.context], head.forward(None)]
        await request.respond(200, [JSON], orjson.dumps(said, default=repr))


class Forgetful(KnownHeads):
    """Every head is parsed."""

    def find(self, key: bytes) -> KnownHead | None:
        return None


class Wire:
    """The client's side of a connection, without a network."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False
        self._sockets = socket.socketpair()

    def write(self, data: bytes) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = write_eof = close

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._sockets[0] if name == "socket" else ("127.0.0.1", 1)

    def do_nothing(self, *_: object) -> int:
        return 0

    get_write_buffer_size = set_write_buffer_limits = pause_reading = resume_reading = do_nothing

    def release(self) -> None:
        for one in self._sockets:
            one.close()


@contextmanager
def open_connection(heads: KnownHeads, echo: Echo) -> Iterator[tuple[Any, Wire]]:
    settings = Settings(upstreams={}, routes=[], limits=LimitSettings(header_bytes=8192, body_bytes=MAX_BODY))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    server = build_server(app, settings, [echo])
    server.config.load()
    kind: Any = server.config.http_protocol_class
    kind.heads = heads
    protocol, wire = kind(config=server.config, server_state=server.server_state, app_state={}), Wire()
    protocol.connection_made(wire)
    try:
        yield protocol, wire
    finally:
        protocol.connection_lost(None)
        wire.release()


async def converse(pieces: Sequence[bytes], heads: KnownHeads, echo: Echo) -> bytes:
    """What a connection answers to bytes that arrive in these pieces."""
    with open_connection(heads, echo) as (protocol, wire):
        for piece in pieces:
            if wire.closed:
                break
            protocol.data_received(piece)
            for _ in range(6):  # usually the answer comes first, sometimes the next piece does
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        return wire.sent


def build_request(chance: random.Random) -> bytes:
    """One of a few heads, which differ in a byte, in framing, or only in their length; seldom nonsense."""
    agent = chance.choice([b"one", b"two", b"twp"])
    body = b"x" * chance.choice([0, 1, 9, 10, 700, MAX_BODY, MAX_BODY + chance.randrange(2)])
    name = chance.choice([b"content-length", b"content-length", b"Content-Length", b"CONTENT-LENGTH"])
    lines = [b"host: localhost", b"x-context-agent: " + agent, b"content-type: application/json"]
    extra = {
        1: b"connection: keep-alive",
        2: b"expect: 100-continue",
        3: b"connection: close",
        4: b"content-length: 3",
        5: b"content-length: ",
        6: b"x-note: content-length: 4",
        7: b"upgrade: h2c",
    }
    if (drawn := chance.randrange(40)) in extra:
        lines.insert(chance.randrange(len(lines) + 1), extra[drawn])
    line = chance.choices([b"POST %b HTTP/1.1", b"POST /other HTTP/1.1", b"GET %b HTTP/1.1"], [18, 1, 1])[0]
    line = line.replace(b"%b", PATH.encode())
    if drawn == 8:
        chunks = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return b"\r\n".join([line, *lines, b"transfer-encoding: chunked", b"", chunks + b"0\r\n\r\n"])
    digits = (b"%03d" if drawn == 9 else b"%d") % len(body)
    return b"\r\n".join([line, *lines, name + b": " + digits, b"", body])


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    places = sorted({chance.randrange(1, len(data)) for _ in range(chance.choice([0, 0, 1, 4]))})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def arrange(chance: random.Random) -> list[bytes]:
    """Requests one by one, several at once, and in pieces."""
    requests = [build_request(chance) for _ in range(REQUESTS)]
    pieces: list[bytes] = []
    while requests:
        count = chance.choice([1, 1, 1, 2, 3])
        pieces += cut(b"".join(requests[:count]), chance)
        del requests[:count]
    return pieces


async def test_a_known_head_changes_nothing_in_what_is_read_and_answered():
    heads, known, echo = KnownHeads(), Echo(), Echo()
    for seed in range(SEQUENCES):
        pieces = arrange(random.Random(seed))
        answered = await converse(pieces, heads, known)
        assert answered == await converse(pieces, Forgetful(), echo), f"seed {seed}: {pieces}"
    assert known.known > SEQUENCES  # of about 1,000 requests that are answered
    assert echo.known == 0


class Careless(KnownHeads):
    """The mutant: a head is recognised by its first bytes."""

    def find(self, key: bytes) -> KnownHead | None:
        return next((one for known, one in self._known.items() if known[:90] == key[:90]), None)


async def test_that_comparison_notices_heads_that_are_mistaken_for_each_other():
    heads = Careless()
    for seed in range(SEQUENCES):
        pieces = arrange(random.Random(seed))
        if await converse(pieces, heads, Echo()) != await converse(pieces, Forgetful(), Echo()):
            return
    pytest.fail("nothing was noticed")


HEAD = b"POST / HTTP/1.1\r\nhost: a\r\nContent-Length: %b\r\naccept: */*\r\n\r\n"


def test_a_head_is_compared_without_the_digits_of_its_length():
    short, long = outline_head(HEAD % b"7" + b"{}"), outline_head(HEAD % b"1234" + b"{}")
    assert short is not None
    assert long is not None
    assert (short.key, short.length) == (long.key, 7)
    assert (long.length, long.size) == (1234, len(HEAD % b"1234"))


@pytest.mark.parametrize(
    "data",
    [
        HEAD[:-1] % b"7",
        HEAD % b"",
        HEAD % b"+7",
        HEAD % b"7 ",
        HEAD % b"1234567890",
        HEAD.replace(b"Length: ", b"Length:") % b"7",
        HEAD.replace(b"accept: */*", b"accept: " + b"a" * MAX_HEAD) % b"7",
    ],
)
def test_a_head_that_is_incomplete_unusual_or_large_is_left_to_the_parser(data):
    assert outline_head(data) is None


FOUND = FoundEndpoint(Echo(), DirectTarget(PATH))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-length", b"1"), (b"content-length", b"1")],
        [(b"content-length", b"1"), (b"transfer-encoding", b"chunked")],
        [(b"content-length", b"1"), (b"expect", b"100-continue")],
        [(b"content-length", b"1"), (b"connection", b"keep-alive, upgrade")],
    ],
)
def test_heads_of_unusual_framing_are_not_remembered(headers):
    heads = KnownHeads()
    heads.add(b"key", FOUND, headers)
    assert len(heads) == 0


def test_only_so_many_heads_are_remembered_and_the_oldest_goes_first():
    heads = KnownHeads()
    for number in range(MAX_KNOWN + 1):
        heads.add(b"%d" % number, FOUND, [(b"content-length", b"1")])
    assert len(heads) == MAX_KNOWN
    assert heads.find(b"0") is None
    assert heads.find(b"1") is not None


def test_a_connection_whose_heads_always_differ_is_no_longer_looked_at():
    known = KnownHeads()
    heads = ConnectionHeads(known)
    for number in range(PATIENCE):
        assert heads.recall(HEAD.replace(b"*/*", b"%d" % number) % b"7", LONGEST) is None
        heads.learn(FOUND, [(b"content-length", b"7")], usual=True)
    known.add(outline_key(HEAD % b"7"), FOUND, [(b"content-length", b"7")])
    assert heads.recall(HEAD % b"7", LONGEST) is None
    assert ConnectionHeads(known).recall(HEAD % b"7", LONGEST) is not None


def make_auth(*secrets: str) -> Callable[[], Authenticator]:
    keys = [KeySettings(sha256=sha256(secret.encode()).hexdigest()) for secret in secrets]
    return lambda: Authenticator(AuthSettings(keys=keys))


def test_a_known_head_is_admitted_only_as_long_as_its_key_is_valid():
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer mine")]
    head = read_head(headers)
    AccessControl(HostCheck([]), make_auth("mine")()).admit(headers, head)
    with pytest.raises(InvalidApiKey):
        AccessControl(HostCheck([]), make_auth("other")()).admit(headers, head)


def outline_key(data: bytes) -> bytes:
    outline = outline_head(data)
    assert outline is not None
    return outline.key


def make_connection(*data: bytes) -> ConnectionHeads:
    """A connection to a server that knows the heads of these requests, and has just been sent them."""
    known = KnownHeads()
    for one in data:
        known.add(outline_key(one), FOUND, [(b"content-length", b"1")])
    heads = ConnectionHeads(known)
    for one in data:
        assert heads.recall(one, LONGEST) is not None
    return heads


@pytest.mark.parametrize(
    "data",
    [
        HEAD % b"8" + b"{}",
        HEAD % b"123456789" + b"{}",
        HEAD % b"0",
        HEAD % b"",
        HEAD % b"-1",
        HEAD % b"1 ",
        HEAD % b"1234567890",
        HEAD % b"7\r\nX: 1",
        (HEAD % b"7")[:-1],
        (HEAD % b"7").replace(b"*/*", b"text/plain"),
        (HEAD % b"7").replace(b"POST", b"PUT"),
        b"",
    ],
)
@pytest.mark.parametrize("limit", [5, 10**9])
def test_the_last_head_of_a_connection_is_recognized_as_it_is_among_all(data: bytes, limit: int):
    last, fresh = make_connection(HEAD % b"7"), make_connection()
    fresh._known = last._known
    assert last.recall(data, limit) == fresh.recall(data, limit)


def test_a_connection_may_change_between_known_heads():
    other = HEAD.replace(b"*/*", b"text/plain")
    heads = make_connection(HEAD % b"7", other % b"7")
    for head in (HEAD, other, other, HEAD):
        found = heads.recall(head % b"12" + b"{", LONGEST)
        assert found is not None
        assert (found.size, found.length) == (len(head % b"12"), 12)
