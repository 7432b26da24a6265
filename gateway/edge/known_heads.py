"""Heads that came before: most clients send the same one with every request, and it need not be parsed again.

Two heads are the same if their bytes are, apart from the digits of the Content-Length. What is known of a head is only
what its bytes say; who sent it is checked with every request.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gateway.edge.request import PASSED_UP, FoundEndpoint, RequestHead, read_head

END: Final = b"\r\n\r\n"
MAX_HEAD: Final = 4096  # bytes of a head that is remembered
MAX_KNOWN: Final = 512
PATIENCE: Final = 4  # unknown heads of a connection, after which none is looked at: they always differ
CONTENT_LENGTH: Final = b"content-length"
# What changes how a body is read or whether the connection goes on, apart from its length.
FRAMING: Final = frozenset({b"connection", b"expect", b"transfer-encoding", b"upgrade"})
KEEPS_ALIVE: Final = (b"connection", b"keep-alive")  # says what holds anyway

MAX_DIGITS: Final = 9  # of a Content-Length

_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,%d})\r\n" % MAX_DIGITS)


class HeadOutline(msgspec.Struct, frozen=True, gc=False):
    """A head as it is compared with others."""

    key: bytes  # the head without the digits of its Content-Length
    size: int  # bytes of the head, with the empty line at its end
    length: int  # of the body
    before: int  # bytes of it up to the digits


def outline_head(data: bytes) -> HeadOutline | None:
    """The head at the beginning of `data`; None if it is not whole, is large, or has no plain Content-Length."""
    end = data.find(END, 0, MAX_HEAD)
    found = _LENGTH.search(data, 0, end + 2) if end >= 0 else None
    if found is None:
        return None
    first, last = found.span(1)
    return HeadOutline(data[:first] + data[last:end], end + len(END), int(data[first:last]), first)


class KnownHead(msgspec.Struct, frozen=True):
    """What a head says."""

    found: FoundEndpoint
    headers: Sequence[tuple[bytes, bytes]]  # without the Content-Length
    head: RequestHead


class RecalledHead(msgspec.Struct, frozen=True):
    """A known head at the beginning of some data."""

    known: KnownHead
    size: int  # bytes of the head, with the empty line at its end
    length: int  # of the body


class KnownHeads:
    """The heads that some connection has sent twice, of all connections of a server."""

    def __init__(self, passed_up: Mapping[bytes, str] = PASSED_UP) -> None:
        self._passed_up = passed_up
        self._known: dict[bytes, KnownHead] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: bytes) -> KnownHead | None:
        return self._known.get(key)

    def add(self, key: bytes, found: FoundEndpoint, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Remember the head of a POST over HTTP/1.1 that the parser has accepted, unless its framing is unusual."""
        names = [name for name, value in headers if (name, value.lower()) != KEEPS_ALIVE]
        if names.count(CONTENT_LENGTH) != 1 or not FRAMING.isdisjoint(names):
            return
        kept = tuple(line for line in headers if line[0] != CONTENT_LENGTH)
        if len(self._known) >= MAX_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[key] = KnownHead(found, kept, read_head(kept, self._passed_up))


class ConnectionHeads:
    """The heads of one connection: which are known, and which may be worth knowing."""

    __slots__ = ("_after", "_before", "_known", "_last", "_repeated", "_unknown")

    def __init__(self, known: KnownHeads) -> None:
        self._known = known
        self._unknown: set[int] = set()  # hashes of those that came once
        self._repeated = b""  # the one that the parser reads now, if it came before
        self._last: KnownHead | None = None  # the known one that came last, with the bytes around its digits
        self._before = self._after = b""

    def recall(self, data: bytes, max_length: int) -> RecalledHead | None:
        """The known head that `data` begins with; None if there is none, or its body is longer than that."""
        if self._last is not None and data.startswith(self._before):
            first, after = len(self._before), self._after
            last = data.find(after, first, first + MAX_DIGITS + len(after))
            digits = data[first:last]
            if last > first and digits.isdigit() and (length := int(digits)) <= max_length:
                return RecalledHead(self._last, last + len(after), length)
        return self._search(data, max_length) if len(self._unknown) < PATIENCE else None

    def _search(self, data: bytes, max_length: int) -> RecalledHead | None:
        """The same among all heads; one that is not known may be worth knowing."""
        outline = outline_head(data)
        if outline is None or outline.length > max_length:
            return None
        known = self._known.find(outline.key)
        if known is None:
            mark = hash(outline.key)
            self._repeated = outline.key if mark in self._unknown else b""
            self._unknown.add(mark)
            return None
        key, first = outline.key, outline.before
        self._last, self._before, self._after = known, key[:first], key[first:] + END
        return RecalledHead(known, outline.size, outline.length)

    @property
    def repeats(self) -> bool:
        """Whether the head that the parser reads now came before."""
        return bool(self._repeated)

    def learn(self, found: FoundEndpoint | None, headers: Sequence[tuple[bytes, bytes]], *, usual: bool) -> None:
        """The parser has read a head; `usual`: that of a POST over HTTP/1.1 which leaves the connection open."""
        key, self._repeated = self._repeated, b""
        if key and usual and found is not None:
            self._known.add(key, found, headers)
            self._unknown.discard(hash(key))
