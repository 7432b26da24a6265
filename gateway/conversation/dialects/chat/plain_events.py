"""Events of a stream that carry nothing but text: they may pass to the client unread."""

import msgspec

from gateway import sse
from gateway.conversation.dialects.raw_body import UNREADABLE

EVENT_BORDER = b"\n\ndata: "
CLOSING_EVENTS = 3  # that usually end a stream: the finish, the usage, [DONE]
CONTENT_KEYS = (b'"content":"', b'"content": "')  # in front of a text; in a string their quotes would be escaped
MAX_LESSONS = 8  # a stream whose events differ in more than their text is not learned from again and again


class _PlainDelta(msgspec.Struct, gc=False):
    tool_calls: None = None


class _PlainChoice(msgspec.Struct, gc=False):
    delta: _PlainDelta | None = None
    finish_reason: None = None


class _PlainChunk(msgspec.Struct, gc=False):
    """A chunk that carries nothing but text: what would be more is null or absent, or else it is not valid."""

    choices: list[_PlainChoice] | None = None
    usage: None = None
    error: None = None


_decode_plain = msgspec.json.Decoder(list[_PlainChunk]).decode


class PlainEvents:
    """Finds the plain events of one stream.

    Most of its chunks differ in nothing but their text. What surrounds the text is learned from one that was decoded;
    events that have the same around a text without quotes, escapes and control characters are then JSON of the
    same form, and need not be decoded.
    """

    __slots__ = ("_after", "_before", "_lessons")

    def __init__(self) -> None:
        self._before, self._after = b"", b""
        self._lessons = 0

    def measure(self, data: bytes) -> int:
        """How many leading bytes are whole events that carry nothing but text."""
        if self._before and self._is_familiar(data):
            return len(data)
        end = find_plain_events(data)
        if end and self._lessons < MAX_LESSONS:
            border = data.rfind(EVENT_BORDER, 0, end)
            self._learn(data[border + 2 if border >= 0 else 0 : end])
        return end

    def _is_familiar(self, data: bytes) -> bool:
        before, after = self._before, self._after
        if not data.startswith(before) or not data.endswith(after, len(before)):
            return False
        text = b"".join(data[len(before) : -len(after)].split(after + before))
        return b'"' not in text and b"\\" not in text and text.isascii() and text.decode("ascii").isprintable()

    def _learn(self, event: bytes) -> None:
        """What surrounds the text of a plain event, if it has one without escapes."""
        self._lessons += 1
        for key in CONTENT_KEYS:
            before, found, rest = event.partition(key)
            text, quote, after = rest.partition(b'"')
            if found and quote and b"\\" not in text and b"\r" not in event:
                self._before, self._after = before + found, quote + after


def find_plain_events(data: bytes) -> int:
    """How many leading bytes are whole events that carry nothing but text, so that they may pass unread."""
    end = find_closing_events(data)
    if are_plain(data[:end]):
        return end
    plain = 0
    for event in sse.split_events(data[:end]):
        if not are_plain(event):
            break
        plain += len(event)
    return plain


def find_closing_events(data: bytes) -> int:
    """Where the last events begin, those that are more than text, as at the end of most streams."""
    end = len(data)
    for _ in range(CLOSING_EVENTS):
        start = data.rfind(EVENT_BORDER, 0, end) + 2
        if start < 2 or are_plain(data[start:end]):
            break
        end = start
    return end


def are_plain(data: bytes) -> bool:
    """Whether each of these events is one `data:` line with a chunk of text; other forms are read one by one."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    if not data.startswith(b"data: {"):
        return False
    try:
        # No JSON contains a line feed inside a string: the events become one array, which is checked in one go.
        found = _decode_plain(b"[" + data[6:].replace(EVENT_BORDER, b",") + b"]")
    except UNREADABLE:
        return False
    return len(found) == data.count(EVENT_BORDER) + 1
