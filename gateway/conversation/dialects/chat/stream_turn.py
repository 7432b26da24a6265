"""One turn of a stream: its chunks, read only as far as needed, and the message that they add up to."""

import re
from typing import Any

import msgspec

from gateway import sse
from gateway.conversation.dialects.chat.calls import CallTracker
from gateway.conversation.dialects.chat.merge import merge_deltas
from gateway.conversation.dialects.raw_body import UNREADABLE
from gateway.errors import UpstreamInvalid

EVENT_BORDER = b"\n\ndata: "
CLOSING_EVENTS = 3  # that usually end a stream: the finish, the usage, [DONE]
CONTENT_KEYS = (b'"content":"', b'"content": "')  # in front of a text; in a string their quotes would be escaped
ROLE = re.compile(rb'"role": ?"[^"]')
MAX_LESSONS = 8  # a stream whose events differ in more than their text is not learned from again and again

_encode = msgspec.json.Encoder().encode


class StreamTurn(msgspec.Struct):
    """What is known of the turn whose stream is being read."""

    tracker: CallTracker
    unread: list[bytes] = msgspec.field(default_factory=list)  # raw events, parsed only if the message is needed
    unread_size: int = 0
    message: dict[str, Any] = msgspec.field(default_factory=dict)
    head: dict[str, Any] = msgspec.field(default_factory=dict)  # id, created and model, once the message was assembled
    has_role: bool = False  # a delta of the message named the role
    has_text: bool = False
    held: list[bytes] = msgspec.field(default_factory=list)  # events withheld until we know that this turn is the last
    role_shown: bool = False  # whether the client knew the role before they were withheld
    finish_reason: str | None = None
    finish_event: dict[str, Any] | None = None  # a finish that waits for the hidden turns to be stored
    usage: dict[str, Any] | None = None
    usage_event: dict[str, Any] | None = None
    done: bool = False
    rejoined: set[str] = msgspec.field(default_factory=set)  # fields whose text continues that of an earlier turn

    def assemble(self) -> None:
        """Add the unread events to the message."""
        unread, self.unread, self.unread_size = self.unread, [], 0
        deltas: list[dict[str, Any]] = []
        for event in sse.split_events(b"".join(unread)):
            data = sse.read_payload(event)
            if not data or data == sse.DONE:
                continue
            chunk = decode_chunk(data)
            if not chunk.choices:
                continue  # what some providers send first has no id yet
            self.head = self.head or chunk.head
            deltas += (choice.delta for choice in chunk.choices if choice.delta)
        self.has_role = self.has_role or any(delta.get("role") for delta in deltas)
        merge_deltas(self.message, *deltas)

    def encode_message(self, number: int) -> bytes:
        """The message of turn `number` as it goes back upstream; empty when nothing will need it."""
        calls = self.tracker.calls
        if not calls:
            return b""
        for position, call in enumerate(calls):
            call.parts["id"] = call.id or f"call_{number}_{position}"
        message = {"role": "assistant", "content": None, **self.message}
        return _encode({**message, "tool_calls": [call.parts for call in calls]})


class ChunkChoice(msgspec.Struct):
    delta: dict[str, Any] | None = None


class StreamChunk(msgspec.Struct):
    """A chunk as far as the assistant's message is concerned."""

    id: Any = None
    created: Any = None
    model: Any = None
    choices: list[ChunkChoice] | None = None

    @property
    def head(self) -> dict[str, Any]:
        """What is the same in all chunks of a stream."""
        fields = {"id": self.id, "created": self.created, "model": self.model}
        return {key: value for key, value in fields.items() if value is not None}


_decode = msgspec.json.Decoder(StreamChunk).decode


def decode_chunk(data: bytes) -> StreamChunk:
    """The chunk that an event carries; raises UpstreamInvalid if it carries none."""
    try:
        return _decode(data)
    except UNREADABLE as fault:
        raise build_chunk_error() from fault


def build_chunk_error() -> UpstreamInvalid:
    return UpstreamInvalid("The upstream's stream carries something that is not a chunk.")


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


class PlainEvents(msgspec.Struct):
    """Finds the plain events of one stream.

    Most of its chunks differ in nothing but their text. What surrounds the text is learned from one that was decoded;
    events that have the same around a text without quotes, escapes and control characters are then JSON of the
    same form, and need not be decoded. A role passes once: some providers repeat it in every chunk.
    """

    has_role: bool = False  # something that looks like a role has passed
    _before: bytes = b""
    _after: bytes = b""
    _lessons: int = 0

    def measure(self, data: bytes) -> int:
        """How many leading bytes are whole events that carry nothing but text."""
        if self._before and self._is_familiar(data):
            return len(data)
        end = self._stop_at_role(data, find_plain_events(data))
        if end and self._lessons < MAX_LESSONS:
            border = data.rfind(EVENT_BORDER, 0, end)
            self._learn(data[border + 2 if border >= 0 else 0 : end])
        return end

    def _stop_at_role(self, data: bytes, end: int) -> int:
        """Where the first event begins that names a role once more, at most `end`."""
        role = ROLE.search(data, 0, end)
        if role is not None and not self.has_role:
            self.has_role = True
            role = ROLE.search(data, role.end(), end)
        return end if role is None else data.rfind(b"\n", 0, role.start()) + 1

    def _is_familiar(self, data: bytes) -> bool:
        before, after = self._before, self._after
        if not data.startswith(before) or not data.endswith(after, len(before)):
            return False
        text = b"".join(data[len(before) : -len(after)].split(after + before))
        return b'"' not in text and b"\\" not in text and text.isascii() and text.decode("ascii").isprintable()

    def _learn(self, event: bytes) -> None:
        """What surrounds the text of a plain event, if it has one without escapes."""
        if ROLE.search(event):
            return
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
