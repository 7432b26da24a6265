"""One HTTP/1.1 reply, from bytes to head and body, without I/O.

httptools reads heads and chunks; where a body ends is decided here, so that not one byte after it goes unnoticed.
Whatever leaves a doubt about that is refused (RFC 9112 §6.3, §11): a client that guesses hands one caller the answer
of another.
"""

from enum import Enum
from functools import lru_cache
from typing import Final, Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from gateway.upstreams.known_replies import HEAD_END, WholeReply

HEAD_START: Final = ord("H")  # httptools would skip line ends in front of it
LINE_FEED: Final = 10
VERSIONS: Final = ("1.1", "1.0")
BODILESS_STATUSES: Final = (204, 304)
SWITCHING_PROTOCOLS: Final = 101
CACHED_NAME_LENGTH: Final = 64  # the upstream chooses the names: longer ones are decoded each time


class ReplyFault(Exception):
    """Why there is no reply, or no more of it."""


class NoReplyFault(ReplyFault):
    """The connection ended before any byte of the reply."""


class InvalidReplyFault(ReplyFault):
    """The head cannot be read, is too large, or leaves open where the body ends."""


class TruncatedReplyFault(ReplyFault):
    """The body broke off."""


class ReplyTimeoutFault(ReplyFault):
    """The head or the next part of the body did not come in time."""


class ReplySink(Protocol):
    """Takes a reply as it comes."""

    def receive_head(self, status: int, headers: dict[str, str]) -> None:
        """The head is complete; called once, before anything of the body. Names are in lower case."""
        ...

    def receive_body(self, data: bytes) -> None:
        """More of the body."""
        ...

    def receive_whole(self, reply: WholeReply) -> None:
        """All of the reply at once, instead of all other calls; the connection has no more to do with it."""
        ...

    def complete(self) -> None:
        """The reply is whole; the connection has no more to do with it."""
        ...

    def fail(self, fault: ReplyFault) -> None:
        """There will be no more; the connection is closed."""
        ...


class Framing(Enum):
    """How a body ends."""

    EMPTY = "empty"  # there is none
    LENGTH = "length"  # after Content-Length bytes
    CHUNKED = "chunked"  # with the last chunk and its trailers
    UNTIL_CLOSE = "until close"  # with the connection


EMPTY, LENGTH, CHUNKED, UNTIL_CLOSE = Framing  # Python 3.11 takes long to find a member of an enum by its name


class ReplyParser:
    """Reads one reply. `head_only`: it answers HEAD and has no body, whatever its headers say."""

    __slots__ = (
        "_framing",
        "_head_bytes",
        "_head_ended",
        "_head_limit",
        "_head_only",
        "_http",
        "_last_piece",
        "_overhead",
        "_pairs",
        "_pieces",
        "_remaining",
        "_sink",
        "_tail",
        "_version",
        "has_leftover",
        "headers",
        "is_complete",
        "keeps_alive",
        "on_body",
        "status",
    )

    def __init__(self, sink: ReplySink, head_limit: int, *, head_only: bool = False) -> None:
        self._sink, self._head_limit, self._head_only = sink, head_limit, head_only
        self.is_complete = False
        self.has_leftover = False  # bytes came after the end of the reply
        self.headers: dict[str, str] = {}  # once the head is there
        self.keeps_alive = False  # the server means to use the connection again
        self._framing: Framing | None = None  # None until the head is there
        self._remaining = 0  # bytes of a body with a length
        self._head_bytes = 0  # of all heads: interim ones count too
        self._overhead = 0  # of chunk headers and trailers, since the last byte of the body
        self._pieces: list[bytes] = []  # chunks of the data at hand
        self._last_piece: int | None = None  # how many of them belong to this reply, once it is complete
        self.on_body = self._pieces.append  # httptools calls it for every chunk
        self._start_head()

    def _start_head(self) -> None:
        self._pairs: list[tuple[bytes, bytes]] = []
        self._tail = b""  # what may be the beginning of the end of the head
        self._head_ended = False
        self.status, self._version = 0, ""
        self._http: HttpResponseParser | None = HttpResponseParser(self)

    @property
    def has_head(self) -> bool:
        return self._framing is not None

    @property
    def has_length(self) -> bool:
        """Whether its body ends after Content-Length bytes."""
        return self._framing is LENGTH

    def feed(self, data: bytes) -> None:
        """The next bytes, at least one; raises ReplyFault when they are not what a reply can have there."""
        if self._framing is None:
            data = self._feed_head(data)
            if self._framing is None:
                return
            if self._framing is EMPTY or (self._framing is LENGTH and not self._remaining):
                self.is_complete, self.has_leftover = True, bool(data)
                return
            if not data:
                return
        if self._framing is CHUNKED:
            self._feed_chunks(data)
        elif self._framing is LENGTH:
            self._feed_length(data)
        else:
            self._sink.receive_body(data)

    def feed_eof(self) -> None:
        """The server has sent all that it will; that is the end of a body without a length, and of no other."""
        self.is_complete = self.is_complete or self._framing is UNTIL_CLOSE

    def close(self) -> None:
        """Part with httptools' parser: the two refer to each other."""
        self._http = None

    def _feed_head(self, data: bytes) -> bytes:
        """Read heads until the final one (RFC 9110 §15.2); returns what follows it."""
        while data:
            if not self._tail and data[0] != HEAD_START:
                raise InvalidReplyFault("something that is not HTTP")
            end = find_head_end(self._tail, data)
            piece = data if end is None else data[:end]
            self._head_bytes += len(piece)
            if self._head_bytes > self._head_limit:
                raise InvalidReplyFault(f"a head of more than {self._head_limit} bytes")
            self._parse_head(piece)
            if self._head_ended is (end is None):
                raise InvalidReplyFault("a head whose end is in doubt")
            if end is None:
                self._tail = (self._tail + data)[-len(HEAD_END) + 1 :]
                return b""
            data = data[end:]
            self._end_head()
            if self._framing is not None:
                break
        return data

    def _parse_head(self, piece: bytes) -> None:
        if self._http is None:
            return
        try:
            self._http.feed_data(piece)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not (self._head_ended and self.status == SWITCHING_PROTOCOLS):
                raise InvalidReplyFault("something that is not HTTP") from error

    def _end_head(self) -> None:
        """Take a complete head: an interim one is dropped, the final one decides the framing."""
        headers: dict[str, str] = {}
        for name, value in self._pairs:
            known = decode_short_name(name) if len(name) <= CACHED_NAME_LENGTH else decode_name(name)
            headers[known] = value.rstrip(b" \t").decode("utf-8", "surrogateescape")
        is_repeated = len(headers) < len(self._pairs) and repeats_framing(self._pairs)
        if self.status < 100 or self._version not in VERSIONS or is_repeated:
            raise InvalidReplyFault("a head that cannot be trusted")
        framing = choose_framing(self.status, headers, self._version)
        if self.status < 200 and self.status != SWITCHING_PROTOCOLS:
            self._start_head()
            return
        self._framing = EMPTY if self._head_only else framing
        if framing is LENGTH:
            self._remaining = int(headers["content-length"])
        if framing is not CHUNKED:
            self._http = None
        self.headers = headers
        self._sink.receive_head(self.status, headers)

    def _feed_length(self, data: bytes) -> None:
        size = len(data)
        if size > self._remaining:
            data, self.has_leftover = data[: self._remaining], True
        self.is_complete = size >= self._remaining
        self._remaining -= len(data)
        self._sink.receive_body(data)

    def _feed_chunks(self, data: bytes) -> None:
        """A chunked body ends with a line feed. The one at the end of `data` is fed by itself: if the body is complete
        before it, bytes are left over, and httptools does not tell where in `data` it ended."""
        if self._http is None:
            return
        self._overhead += len(data)
        is_line = data[-1] == LINE_FEED
        try:
            self._http.feed_data(data[:-1] if is_line else data)
            if self.is_complete:
                self.has_leftover = True
            elif is_line:
                self._http.feed_data(b"\n")
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.is_complete:
                raise TruncatedReplyFault("broken chunks") from error
            self.has_leftover = True
        finally:
            self._pass_pieces()
        if self._overhead > self._head_limit and not self.is_complete:
            raise TruncatedReplyFault(f"more than {self._head_limit} bytes of trailers")

    def _pass_pieces(self) -> None:
        """What arrived together goes on together."""
        pieces = self._pieces[: self._last_piece]
        self._pieces.clear()
        if pieces:
            self._overhead = 0
            self._sink.receive_body(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._framing is None:  # trailers are not headers
            self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        http = self._http
        if self._framing is None and http is not None:
            self._head_ended = True
            self.status, self._version = http.get_status_code(), http.get_http_version()
            self.keeps_alive = http.should_keep_alive() and self.status != SWITCHING_PROTOCOLS

    def on_message_complete(self) -> None:
        if self._framing is CHUNKED and not self.is_complete:
            self.is_complete = True
            self._last_piece = len(self._pieces)


def find_head_end(tail: bytes, data: bytes) -> int | None:
    """Where in `data` a head ends whose last bytes so far were `tail`."""
    at = (tail + data).find(HEAD_END) if tail else data.find(HEAD_END)
    return None if at < 0 else at + len(HEAD_END) - len(tail)


def choose_framing(status: int, headers: dict[str, str], version: str) -> Framing:
    """How the body ends (RFC 9112 §6.3); raises InvalidReplyFault where two readers could disagree."""
    encoding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if encoding is not None and (length is not None or version != "1.1" or encoding.lower() != "chunked"):
        raise InvalidReplyFault("a transfer encoding that cannot be trusted")
    if length is not None and not (length.isascii() and length.isdigit()):
        raise InvalidReplyFault("a Content-Length that is no number")
    has_body = encoding is not None or length not in (None, "0")
    if has_body and (status < 200 or status == 204):
        raise InvalidReplyFault(f"HTTP {status} with a body")
    if status < 200 or status in BODILESS_STATUSES:
        return EMPTY
    if encoding is not None:
        return CHUNKED
    return UNTIL_CLOSE if length is None else LENGTH


def repeats_framing(pairs: list[tuple[bytes, bytes]]) -> bool:
    """Whether a header that frames the body occurs twice."""
    names = [decode_name(name) for name, _ in pairs]
    return names.count("content-length") > 1 or names.count("transfer-encoding") > 1


def decode_name(name: bytes) -> str:
    return decode_short_name(name) if len(name) <= CACHED_NAME_LENGTH else name.decode("latin-1").lower()


@lru_cache(maxsize=512)
def decode_short_name(name: bytes) -> str:
    return name.decode("latin-1").lower()
