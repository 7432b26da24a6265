"""A client's history, read so that it stays the same whatever clients do to it between two requests.

Clients drop fields, write null for "", one text part for a string, JSON with other spaces and numbers; some rename call
ids, put parallel results in another order, split an assistant's message in two or join several. So a history counts as
the texts of its messages and its calls, each with its result, in the order of the calls.
"""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson
from msgspec import Raw

MAX_MESSAGES = 10_000  # of a history that is read
MAX_CALLS = 2_000  # of a history that are looked up
LONGEST_JSON = 1024 * 1024  # characters up to which JSON is compared as a value

ASSISTANT, RESULT, INSTRUCTIONS = "assistant", "tool", ("system", "developer")

NULL = Raw(b"null")
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class CallMark:
    """What a call is recognized by."""

    id: str
    meaning: bytes  # a hash of the function and its arguments


@dataclass(slots=True)
class HistoryCall:
    """One tool call in a history."""

    mark: CallMark
    raw: Raw
    number: int  # among the calls of the whole history
    message: "HistoryMessage"
    result: list[bytes] | None = None  # the content of its result


@dataclass(slots=True)
class HistoryMessage:
    """One message of a history."""

    raw: Raw
    role: str
    run: int  # number of user messages before it
    content: list[bytes]  # see `read_content`
    calls: list[HistoryCall] = field(default_factory=list)
    answered: HistoryCall | None = None  # the call whose result it is

    @property
    def text(self) -> str:
        """What it says, as texts are compared."""
        return strip_spaces(join_texts(self.content)) if self.content else ""


class _ReadFunction(msgspec.Struct):
    name: Any = None
    arguments: Raw = NULL


class _ReadCall(msgspec.Struct):
    id: Any = None
    function: _ReadFunction | None = None


class _ReadMessage(msgspec.Struct):
    role: str | None = None
    content: Raw = NULL
    tool_calls: list[Raw] | None = None
    tool_call_id: str | None = None


_decode_json = json.JSONDecoder(parse_int=float).decode
_decode_call = msgspec.json.Decoder(_ReadCall).decode
_decode_message = msgspec.json.Decoder(_ReadMessage).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_raws: Callable[[bytes], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode


class HistoryReader:
    """Reads messages one after the other and finds out which result belongs to which call."""

    def __init__(self) -> None:
        self.messages: list[HistoryMessage] = []
        self.calls: list[HistoryCall] = []
        self._run = 0
        self._waiting: dict[str, deque[HistoryCall]] = {}  # calls without a result, by id

    def read(self, raws: Sequence[Raw]) -> bool:
        """Whether the history was read; very long ones are not."""
        if len(raws) > MAX_MESSAGES:
            return False
        for raw in raws:
            self._read_message(raw)
            if len(self.calls) > MAX_CALLS:
                return False
        return True

    def _read_message(self, raw: Raw) -> None:
        try:
            seen = _decode_message(raw)
            marks = [read_mark(call) for call in seen.tool_calls or ()]
        except UNREADABLE:
            seen, marks = _ReadMessage("", raw), []  # nothing that we ever sent: it counts as it is
        role = seen.role or ""
        if role not in (ASSISTANT, RESULT, *INSTRUCTIONS):
            self._run += 1
            self._waiting.clear()
        message = HistoryMessage(raw, role, self._run, read_content(seen.content))
        self.messages.append(message)
        if role == ASSISTANT:
            for mark, call in zip(marks, seen.tool_calls or (), strict=True):
                self._add_call(message, mark, call)
        elif role == RESULT:
            self._add_result(message, seen.tool_call_id or "")

    def _add_call(self, message: HistoryMessage, mark: CallMark, raw: Raw) -> None:
        call = HistoryCall(mark, raw, len(self.calls), message)
        message.calls.append(call)
        self.calls.append(call)
        self._waiting.setdefault(mark.id, deque()).append(call)

    def _add_result(self, message: HistoryMessage, identity: str) -> None:
        """Of several calls with one id the first is answered first."""
        waiting = self._waiting.get(identity)
        if waiting:
            message.answered = waiting.popleft()
            message.answered.result = message.content


def read_mark(raw: Raw) -> CallMark:
    """The mark of a call as a message carries it; raises UNREADABLE if it is none."""
    seen = _decode_call(raw)
    function = seen.function or _ReadFunction()
    return mark_call(str(seen.id or ""), str(function.name or ""), read_arguments(function.arguments))


def mark_call(identity: str, name: str, arguments: str) -> CallMark:
    """The meaning is the same for the same function and arguments, however they are written."""
    written = frame(b"f", (name.encode(), canonicalize(arguments.strip() or "{}")))
    return CallMark(identity, hashlib.sha256(written).digest())


def frame(tag: bytes, parts: Sequence[bytes]) -> bytes:
    """Parts as bytes that no other parts make."""
    return tag + b"".join([b"%d:%b" % (len(part), part) for part in parts]) + b";"


def read_arguments(raw: Raw) -> str:
    """The arguments of a call: JSON in a string, or the object itself, as some clients send it."""
    data = bytes(raw)
    if data == b"null":
        return ""
    return _decode_text(data) if data[:1] == b'"' else data.decode()


def canonicalize(text: str) -> bytes:
    """JSON in one way of writing it; as it is if it is no JSON, too long or too deep.

    All numbers become floats, since that is what JavaScript makes of them.
    """
    if len(text) <= LONGEST_JSON:
        try:
            return orjson.dumps(_decode_json(text), option=orjson.OPT_SORT_KEYS)
        except (
            ValueError,
            TypeError,
            RecursionError,
        ):  # orjson refuses more than 254 levels, however deep the stack is
            pass
    return text.encode()


def read_content(raw: Raw) -> list[bytes]:
    """Content as pieces: texts (marked `t`, neighbours joined) and other parts (marked `p`)."""
    data = bytes(raw)
    try:
        if data[:1] == b'"':
            return [b"t" + text] if (text := _decode_text(data).encode()) else []
        if data[:1] != b"[":
            return [] if data == b"null" else [b"p" + data]
        parts = [read_part(part) for part in _decode_raws(data)]
    except UNREADABLE:
        return [b"p" + data]
    joined: list[bytes] = []
    texts: list[bytes] = []
    for part in (*parts, b"p"):  # the last one ends a text
        if part[:1] == b"t":
            texts.append(part[1:])
            continue
        if text := b"".join(texts):
            joined.append(b"t" + text)
        texts.clear()
        joined.append(part)
    return joined[:-1]


class _ReadPart(msgspec.Struct):
    type: str | None = None
    text: str | None = None


_decode_part = msgspec.json.Decoder(_ReadPart).decode


def read_part(raw: Raw) -> bytes:
    """A part of a content; marks for a provider's cache, which clients move from turn to turn, do not count."""
    try:
        part = _decode_part(raw)
    except UNREADABLE:
        part = _ReadPart()
    if part.type == "text" and part.text is not None:
        return b"t" + part.text.encode()
    fields = bytes(raw)
    if b'"cache_control"' in fields and len(fields) <= LONGEST_JSON:
        decoded = msgspec.json.decode(fields)
        decoded.pop("cache_control", None) if isinstance(decoded, dict) else None
        fields = msgspec.json.encode(decoded)
    return b"p" + canonicalize(fields.decode())


def read_text(content: Raw) -> str:
    """The text of a content: a string, or the texts among its parts."""
    return join_texts(read_content(content))


def join_texts(pieces: Sequence[bytes]) -> str:
    return b"".join([piece[1:] for piece in pieces if piece[:1] == b"t"]).decode()


def read_spoken_text(message: bytes) -> str:
    """What an assistant's message says, as texts are compared."""
    try:
        return strip_spaces(read_text(_decode_message(message).content))
    except UNREADABLE:
        return ""


def strip_spaces(text: str) -> str:
    """A text without spaces and line breaks, which clients trim and texts of several turns are joined with."""
    return "".join(text.split())
