"""Messages of a server that are too long to be kept: the beginning of the text stays, the rest is never in memory."""

import re
from collections.abc import Iterator

import msgspec
import orjson

MAX_MESSAGE = 2 * 1024 * 1024  # bytes of one message
KEPT_TEXT = 1024 * 1024  # bytes of the text of a longer one: more than any result that a model gets
LONGEST_CHARACTER = 13  # bytes of an escaped pair of surrogates, and one
EDGE = 512  # bytes at either end of a message in which its id is looked for

_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"(?:[^"\\]|\\.){1,200}")')
_TEXT = re.compile(rb'"text"\s*:\s*"')
_STRING = re.compile(rb'(?:[^"\\]|\\.)*+')


def shorten_message(head: bytes, tail: bytes, size: int) -> bytes:
    """A JSON-RPC result with the beginning of a longer one's text; b"" if nobody can tell what it answers."""
    found = _ID.search(head[:EDGE]) or _ID.search(tail)
    if found is None:
        return b""
    text = read_first_text(head)
    if text is None:
        text = f"The result has {size} bytes, which is too much."
    content = [{"type": "text", "text": text}]
    result = {"content": content, "isError": False, "resultType": "complete"}
    return orjson.dumps({"jsonrpc": "2.0", "id": orjson.loads(found[1]), "result": result})


def read_first_text(head: bytes) -> str | None:
    """The first text in the beginning of a message, as far as it goes."""
    begin = _TEXT.search(head)
    if begin is None:
        return None
    end = min(len(head), begin.end() + KEPT_TEXT)
    found = _STRING.match(head, begin.end(), end)
    written = found[0] if found is not None else b""
    for missing in range(LONGEST_CHARACTER):  # where it was cut, the last character may not be complete
        try:
            text: str = msgspec.json.decode(b'"' + written[: len(written) - missing] + b'"', type=str)
        except (msgspec.MsgspecError, UnicodeError):
            continue
        return text
    return None


class LineLimiter:
    """Splits bytes into lines; of one that is too long, only the beginning and the end are kept."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._kept = 0  # bytes in the pieces
        self._size = 0  # bytes of the line so far
        self._tail = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are complete now, shortened where they must be."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end)
            yield self.finish()
        self._add(rest)

    def finish(self) -> bytes:
        """The line so far, as if it ended here; the next one begins."""
        head, size, tail = b"".join(self._pieces), self._size, self._tail
        self._pieces, self._kept, self._size, self._tail = [], 0, 0, b""
        if size <= self._limit:
            return head
        prefix = b"data: " if head.startswith(b"data:") else b""
        return prefix + shorten_message(head.removeprefix(b"data:"), tail, size)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        room = self._limit - self._kept
        if room > 0 and piece:
            self._pieces.append(piece[:room])
            self._kept += len(self._pieces[-1])
        if self._size > self._limit:
            self._tail = (self._tail + piece[-EDGE:])[-EDGE:]
