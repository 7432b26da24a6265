"""Heads of replies that came before: many servers send the same one each time, and it need not be parsed again.

Two heads are the same if their bytes are, apart from the digits of the Content-Length. Only replies that arrive in one
piece are looked at; all others go to the parser.
"""

from typing import Final

import msgspec

MAX_KNOWN: Final = 4  # a server that puts the time or an id into its heads never sends the older ones again
PATIENCE: Final = 64  # heads that were remembered in vain, until no more are: each may carry an id of its own
REST: Final = 4096  # replies after which heads are remembered again
MAX_HEAD: Final = 4096  # bytes of a head that is remembered
MAX_DIGITS: Final = 9  # of the length of a reply that can arrive in one piece
HEAD_END: Final = b"\r\n\r\n"
LENGTH_LINES: Final = (b"\r\ncontent-length: ", b"\r\nContent-Length: ")


class WholeReply(msgspec.Struct):
    """A reply that is all here."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes


class KnownReplyHead(msgspec.Struct, frozen=True):
    """What a head says, and the bytes by which it is recognized."""

    before: bytes  # the digits of the Content-Length
    after: bytes  # them, with the empty line at the end
    status: int
    headers: dict[str, str]


class KnownReplyHeads:
    """The heads that a server has sent last, over whichever connection."""

    def __init__(self, head_limit: int) -> None:
        self._longest = min(MAX_HEAD, head_limit - MAX_DIGITS)
        self._known: tuple[KnownReplyHead, ...] = ()  # the newest first
        self._patience = PATIENCE

    def recall(self, data: bytes) -> WholeReply | None:
        """The reply that `data` is, if its head is known and it ends with `data`; None: parse it."""
        for known in self._known:
            if not data.startswith(known.before):
                continue
            first, after = len(known.before), known.after
            last = data.find(after, first, first + MAX_DIGITS + len(after))
            digits, size = data[first:last], last + len(after)
            if last > first and digits.isdigit() and len(data) - size == int(digits):
                self._patience = PATIENCE
                headers = known.headers.copy()
                headers["content-length"] = digits.decode()
                return WholeReply(known.status, headers, data[size:])
        return None

    def learn(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        """Remember the head of a reply that came in one piece, with a Content-Length, and left its connection open."""
        self._patience -= 1
        if self._patience < 0:
            self._known = ()
            if self._patience <= -REST:
                self._patience = PATIENCE
            return
        end = data.find(HEAD_END, 0, self._longest)
        if end < 0:
            return
        size, digits = end + len(HEAD_END), headers["content-length"].encode()
        if len(digits) > MAX_DIGITS or len(data) - size != int(digits):
            return  # it is the head of an interim reply, which came first
        for line in LENGTH_LINES:
            at = data.find(line + digits + b"\r\n", 0, size)
            if at >= 0:
                first, last = at + len(line), at + len(line) + len(digits)
                known = KnownReplyHead(data[:first], data[last:size], status, dict(headers))
                self._known = (known, *self._known[: MAX_KNOWN - 1])
                return
