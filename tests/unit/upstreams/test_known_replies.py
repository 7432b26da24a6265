"""Heads of replies that came before: whoever is recognized gets exactly what the parser would have read."""

import random
from typing import Any, cast

import pytest

from gateway.upstreams.http_connection import ConnectionState, HttpConnection
from gateway.upstreams.http_parser import ReplyFault
from gateway.upstreams.known_replies import MAX_DIGITS, MAX_KNOWN, PATIENCE, REST, KnownReplyHeads, WholeReply

LIMIT = 4096
OK = b"HTTP/1.1 200 OK\r\n"
HEADS = [
    OK + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n",
    OK + b"Content-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: a\r\n\r\n",
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: %d\r\nRetry-After: 1\r\n\r\n",
]
ODD = [
    b"HTTP/1.1 304 Not Modified\r\ncontent-length: %d\r\n\r\n",  # which has no body, whatever it says
    b"HTTP/1.0 200 OK\r\ncontent-length: %d\r\n\r\n",
    OK + b"connection: close\r\ncontent-length: %d\r\n\r\n",
    OK + b"content-length:%d\r\n\r\n",
    OK + b"content-length: %d\r\ncontent-length: 3\r\n\r\n",
    OK + b"content-length: %d\r\ntransfer-encoding: chunked\r\n\r\n",
    OK + b"x: 1\r\n content-length: 2\r\ncontent-length: %d\r\n\r\n",
]


class Forgetful(KnownReplyHeads):
    """Recognizes nothing, so that the parser reads everything."""

    def recall(self, data: bytes) -> WholeReply | None:
        return None


class Socket:
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        self.closed = False

    def get_extra_info(self, name: str) -> Any:
        return self

    def fileno(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def write(self, data: bytes) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


class Keeper:
    def keep(self, connection: HttpConnection) -> None: ...
    def forget(self, connection: HttpConnection) -> None: ...


class Notes:
    """A sink that notes what a caller would see."""

    def __init__(self) -> None:
        self.status, self.headers, self.body, self.end = 0, [("", "")], b"", ""

    def receive_head(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, list(headers.items())

    def receive_body(self, data: bytes) -> None:
        self.body += data

    def receive_whole(self, reply: WholeReply) -> None:
        self.receive_head(reply.status, reply.headers)
        self.receive_body(reply.body)
        self.complete()

    def complete(self) -> None:
        self.end += "complete"

    def fail(self, fault: ReplyFault) -> None:
        self.end += repr(fault)


def exchange(known: KnownReplyHeads, *pieces: bytes, head_only: bool = False) -> tuple[object, ...]:
    """What one request on a new connection comes to."""
    connection, notes = HttpConnection(Keeper(), None, LIMIT, known), Notes()
    connection.connection_made(cast(Any, Socket()))
    connection.send(b"", b"", notes, head_only=head_only)
    for piece in pieces:
        connection.data_received(piece)
    return notes.status, notes.headers, notes.body, notes.end, connection.state


def make_reply(chance: random.Random) -> bytes:
    body = b"x" * chance.choice([0, 1, 3, 12, 400])
    head = chance.choice(HEADS * 3 + ODD)
    length = chance.choice([len(body)] * 4 + [len(body) + 1, max(0, len(body) - 1)])
    return head % length + body + chance.choice([b""] * 5 + [b"\r\n", OK])


@pytest.mark.parametrize("seed", range(20))
def test_replies_are_the_same_whether_or_not_their_heads_are_known(seed: int) -> None:
    chance, known, unknown = random.Random(seed), KnownReplyHeads(LIMIT), Forgetful(LIMIT)
    for _ in range(200):
        reply = make_reply(chance)
        at = chance.choice([0, 0, 0, 5, len(reply) // 2])
        pieces = [piece for piece in (reply[:at], reply[at:]) if piece]
        head_only = chance.random() < 0.1
        assert exchange(known, *pieces, head_only=head_only) == exchange(unknown, *pieces, head_only=head_only)


def test_a_reply_is_recognized_whatever_its_length() -> None:
    known = KnownReplyHeads(LIMIT)
    exchange(known, HEADS[0] % 4 + b"mine")
    found = known.recall(HEADS[0] % 12 + b"somebody's..")
    assert found == WholeReply(200, {"content-type": "application/json", "content-length": "12"}, b"somebody's..")
    assert exchange(known, HEADS[0] % 0)[-1] is ConnectionState.IDLE


@pytest.mark.parametrize(
    "data",
    [
        HEADS[0] % 4 + b"min",
        HEADS[0] % 4 + b"mine!",
        (HEADS[0] % 4 + b"mine").replace(b": 4", b": +4"),
        (HEADS[0] % 4 + b"mine").replace(b": 4", b": "),
        (HEADS[0] % 4 + b"mine").replace(b"200", b"201"),
        (HEADS[0] % 4 + b"mine").replace(b": 4", b": " + b"0" * MAX_DIGITS + b"4"),
        HEADS[0][:30],
        b"",
    ],
)
def test_whatever_differs_is_parsed(data: bytes) -> None:
    known = KnownReplyHeads(LIMIT)
    exchange(known, HEADS[0] % 4 + b"mine")
    assert known.recall(data) is None


@pytest.mark.parametrize("odd", ODD)
def test_odd_heads_are_not_learned(odd: bytes) -> None:
    known = KnownReplyHeads(LIMIT)
    exchange(known, odd % 3 + b"abc")
    exchange(known, odd % 0)
    assert known.recall(odd % 3 + b"abc") is None or b"\r\n content-length" in odd


def test_callers_cannot_change_what_is_known() -> None:
    known = KnownReplyHeads(LIMIT)
    exchange(known, HEADS[0] % 4 + b"mine")
    first = known.recall(HEADS[0] % 1 + b"1")
    assert first is not None
    first.headers["x-own"] = "1"
    again = known.recall(HEADS[0] % 1 + b"1")
    assert again is not None
    assert "x-own" not in again.headers


def test_only_the_newest_heads_are_kept() -> None:
    known = KnownReplyHeads(LIMIT)
    replies = [OK + b"date: %d\r\ncontent-length: 1\r\n\r\n1" % second for second in range(MAX_KNOWN + 1)]
    for reply in replies:
        exchange(known, reply)
    assert [known.recall(reply) is not None for reply in replies] == [False] + [True] * MAX_KNOWN


def test_large_heads_are_not_kept() -> None:
    known = KnownReplyHeads(LIMIT)
    reply = OK + b"x: " + b"y" * LIMIT + b"\r\ncontent-length: 1\r\n\r\n1"
    exchange(known, reply)
    known.learn(reply, 200, {"content-length": "1"})
    assert known.recall(reply) is None


def build_reply(id: int) -> bytes:
    return OK + b"content-length: 2\r\nx-request-id: %d\r\n\r\n{}" % id


def test_a_server_that_never_repeats_a_head_is_no_longer_remembered() -> None:
    known = KnownReplyHeads(LIMIT)
    for id in range(PATIENCE + 1):
        known.learn(build_reply(id), 200, {"content-length": "2"})
    assert all(known.recall(build_reply(id)) is None for id in range(PATIENCE + 1))


def test_heads_are_remembered_again_after_a_while() -> None:
    known = KnownReplyHeads(LIMIT)
    for id in range(PATIENCE + REST + 1):
        known.learn(build_reply(id), 200, {"content-length": "2"})
    assert known.recall(build_reply(PATIENCE + REST - 1)) is None
    assert known.recall(build_reply(PATIENCE + REST)) is not None


def test_a_head_that_comes_again_renews_the_patience() -> None:
    known = KnownReplyHeads(LIMIT)
    for id in range(2 * PATIENCE):
        known.learn(build_reply(id), 200, {"content-length": "2"})
        assert known.recall(build_reply(id)) is not None


def test_the_head_of_an_interim_reply_is_not_remembered_as_that_of_the_final_one() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\ncontent-length: 0\r\n\r\n"
    known = KnownReplyHeads(LIMIT)
    known.learn(hints + OK + b"content-length: 0\r\n\r\n", 200, {"content-length": "0"})
    assert known.recall(hints) is None
