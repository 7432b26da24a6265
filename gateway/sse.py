"""Server-sent events as bytes: finding where events end, and what they carry."""

import re

DONE = b"[DONE]"
DONE_EVENT = b"data: [DONE]\n\n"
MAX_EVENT_BYTES = 16 * 1024 * 1024  # bytes of an event that is still waited for

# Not inside a string, where the quotes are escaped, and not null, which many providers send in every event.
# The literal comes first, so that a search skips to it: with the lookbehind there, every byte would be tried.
USAGE_OBJECT = re.compile(rb'"usage"(?<!\\"usage")\s*:\s*(?=\{)')

_BLANK_LINE = re.compile(rb"\n\r?\n")
_SPLIT_END = 2  # bytes of the end of an event that may come with an earlier piece


class EventBuffer:
    """Whole events out of pieces of any size; no byte is searched or copied again with every piece."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting = bytearray()  # an unfinished event

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def tail(self) -> bytes:
        """The unfinished event."""
        return bytes(self._waiting)

    def take(self, piece: bytes) -> bytes:
        """The events that are whole with this piece."""
        waiting = self._waiting
        if not waiting:
            if piece.endswith(b"\n\n"):
                return piece
            end = find_events_end(piece)
            if end == len(piece):
                return piece
            waiting += piece[end:]
            return piece[:end]
        border = bytes(waiting[-_SPLIT_END:])
        end = find_events_end(border + piece) - len(border)
        if end <= 0:
            waiting += piece
            return b""
        events = b"".join((waiting, piece[:end]))
        waiting[:] = piece[end:]
        return events


def find_events_end(data: bytes) -> int:
    """How many leading bytes of `data` are whole events.

    Lines end in LF or CRLF only: JSON may carry U+2028 and U+0085, which a text splitter would cut at.
    """
    lf, crlf = data.rfind(b"\n\n"), data.rfind(b"\n\r\n")
    return 0 if lf < 0 > crlf else max(lf + 2, crlf + 3 if crlf >= 0 else 0)


def split_events(data: bytes) -> list[bytes]:
    """Whole events, each with the blank line that ends it."""
    if b"\r" not in data:
        return [event + b"\n\n" for event in data.split(b"\n\n")[:-1]]
    found = []
    start = 0
    for blank_line in _BLANK_LINE.finditer(data):
        found.append(data[start : blank_line.end()])
        start = blank_line.end()
    return found


def read_payload(event: bytes) -> bytes | None:
    """The `data:` lines of an event as one line; None for a comment or an event without data.

    What is joined is JSON and may be written anew as the data of an event, where no line feed can stand. A tab is no
    less space between tokens, and no more allowed inside a string.
    """
    if event.startswith(b"data: ") and event.count(b"\n") == 2:
        return event[6:].strip()
    if (
        event.startswith(b"event: ")
        and event.count(b"\n") == 3
        and (at := event.find(b"\ndata: ")) == event.find(b"\n")
    ):
        return event[at + 7 :].strip()
    lines = [line[5:].strip() for line in event.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data:")]
    return b"\t".join(lines) if lines else None


def encode_event(data: bytes) -> bytes:
    """One event that carries `data`."""
    return b"data: " + data + b"\n\n"


def reports_usage(data: bytes) -> bool:
    """Whether events or a document may have a usage object."""
    return b'"usage"' in data and USAGE_OBJECT.search(data) is not None
