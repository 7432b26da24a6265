"""Replies as bytes: wherever they are split, they are read the same."""

import pytest

from gateway.upstreams.http_parser import (
    InvalidReplyFault,
    ReplyFault,
    ReplyParser,
    TruncatedReplyFault,
    find_head_end,
)

LIMIT = 4096
OK = b"HTTP/1.1 200 OK\r\n"


class Notes:
    """A sink that notes what it gets."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    def receive_head(self, status: int, headers: dict[str, str]) -> None:
        assert not self.status
        self.status, self.headers = status, headers

    def receive_body(self, data: bytes) -> None:
        assert self.status
        assert data
        self.body += data

    def receive_whole(self, reply: object) -> None:
        raise AssertionError("the connection's part")

    def complete(self) -> None:
        raise AssertionError("the connection's part")

    def fail(self, fault: ReplyFault) -> None:
        raise AssertionError("the connection's part")


def parse(*pieces: bytes, head_only: bool = False) -> tuple[Notes, ReplyParser]:
    notes = Notes()
    parser = ReplyParser(notes, LIMIT, head_only=head_only)
    for number, piece in enumerate(pieces):
        parser.feed(piece)
        if parser.is_complete:
            parser.has_leftover = parser.has_leftover or any(pieces[number + 1 :])
            break
    parser.close()
    return notes, parser


REPLIES = {
    "length": OK + b"Content-Length: 4\r\nX-A: b\r\n\r\nmine",
    "chunked": OK + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nmi\r\n2\r\nne\r\n0\r\nX-T: 1\r\n\r\n",
    "interim": b"HTTP/1.1 103 Hints\r\nX-H: 1\r\n\r\n" + OK + b"Content-Length: 4\r\n\r\nmine",
}


@pytest.mark.parametrize("after", [b"", b"\n", b"\r\n", b"x", OK], ids=["nothing", "LF", "CRLF", "a byte", "a head"])
@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_in_three_pieces_is_the_same_wherever_it_is_split(name: str, after: bytes) -> None:
    data = REPLIES[name] + after
    for first in range(1, len(data) - 1):
        for second in range(first + 1, len(data)):
            notes, parser = parse(data[:first], data[first:second], data[second:])
            assert (notes.status, notes.body) == (200, b"mine")
            assert not notes.headers.keys() & {"x-t", "x-h"}
            assert (parser.is_complete, parser.has_leftover, parser.keeps_alive) == (True, bool(after), True)


@pytest.mark.parametrize("name", REPLIES)
def test_a_part_of_a_reply_is_never_complete(name: str) -> None:
    for end in range(1, len(REPLIES[name])):
        _, parser = parse(REPLIES[name][:end])
        parser.feed_eof()
        assert not parser.is_complete


def test_a_reply_without_a_length_ends_with_the_stream() -> None:
    notes, parser = parse(OK + b"\r\nmi", b"ne")
    assert (parser.is_complete, parser.keeps_alive) == (False, False)
    parser.feed_eof()
    assert (parser.is_complete, notes.body) == (True, b"mine")


def test_the_head_may_be_as_large_as_the_limit() -> None:
    start, end = OK + b"Content-Length: 0\r\nX-A: ", b"\r\n\r\n"
    fits = start + b"a" * (LIMIT - len(start) - len(end)) + end
    assert parse(fits)[1].is_complete
    for pieces in ((start + b"a" + fits[len(start) :],), (start, b"a" * 4000, b"a" * 4000)):
        with pytest.raises(InvalidReplyFault, match="4096"):
            parse(*pieces)


def test_what_lies_between_chunks_is_bounded_and_chunks_are_not() -> None:
    start = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    notes, _ = parse(start, *[b"1;a=b\r\nx\r\n"] * 2000)
    assert len(notes.body) == 2000
    with pytest.raises(TruncatedReplyFault, match="trailers"):
        parse(start, b"1\r\nx\r\n0\r\n", *[b"X-A: b\r\n"] * 2000)


def test_names_are_in_lower_case_and_values_without_spaces_around() -> None:
    notes, _ = parse(
        OK + b"X-ONE:\t a b \t\r\nx-two: \xff\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"
    )
    assert notes.headers == {"x-one": "a b", "x-two": "\udcff", "set-cookie": "b", "content-length": "0"}


@pytest.mark.parametrize(
    ("tail", "data", "end"),
    [
        (b"", b"ab\r\n\r\nc", 6),
        (b"\r\n\r", b"\nc", 1),
        (b"a\r\n", b"\r\n", 2),
        (b"", b"\r\n\r", None),
        (b"\r\n\r", b"a", None),
    ],
)
def test_the_end_of_a_head_is_found_across_pieces(tail: bytes, data: bytes, end: int | None) -> None:
    assert find_head_end(tail, data) == end
