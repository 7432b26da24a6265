"""A client's history, read so that it stays the same whatever clients do to it between two requests.

Clients drop fields, write null for "", one text part for a string, JSON with other spaces and numbers; some rename call
ids, put parallel results in another order, split an assistant's message in two or join several. So a history counts as
the texts of its messages and its calls, each with its result, in the order of the calls.
"""

import hashlib
import json
from collections.abc import Callable, Sequence

import msgspec
import orjson
from msgspec import Raw

MAX_HISTORY_MESSAGES = 10_000  # of a history that is read
MAX_HISTORY_CALLS = 2_000  # of a history that are looked up
LONGEST_JSON = 1024 * 1024  # characters up to which JSON is compared as a value

ASSISTANT, RESULT, INSTRUCTIONS = "assistant", "tool", ("system", "developer")

TEXT_PARTS = ("text", "input_text", "output_text")  # of all dialects
NULL = Raw(b"null")
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


class CallMark(msgspec.Struct, frozen=True):
    """What a call is recognized by."""

    id: str
    meaning: bytes  # a hash of the function and its arguments


class HistoryCall(msgspec.Struct):
    """One tool call in a history."""

    mark: CallMark
    raw: Raw
    number: int  # among the calls of the whole history
    message: "HistoryMessage"
    result: list[bytes] | None = None  # the content of its result


class HistoryMessage(msgspec.Struct):
    """One message of a history."""

    raw: Raw
    role: str
    run: int  # number of user messages before it
    content: list[bytes]  # see `read_content`
    calls: list[HistoryCall] = msgspec.field(default_factory=list)
    answered: HistoryCall | None = None  # the call whose result it is

    @property
    def text(self) -> str:
        """What it says, as texts are compared."""
        return strip_spaces(join_texts(self.content)) if self.content else ""


class History(msgspec.Struct, frozen=True):
    """A conversation as it was read."""

    messages: list[HistoryMessage]
    calls: list[HistoryCall]


_decode_json = json.JSONDecoder(parse_int=float).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_fields: Callable[[bytes], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_raws: Callable[[bytes], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode


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
    if len(text) > LONGEST_JSON:
        return text.encode()
    try:
        # orjson writes 254 levels and not one more: whether that is too deep does not depend on the stack.
        return orjson.dumps(_decode_json(text), option=orjson.OPT_SORT_KEYS)
    except (ValueError, TypeError, RecursionError):
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
    if part.type in TEXT_PARTS and part.text is not None:
        return b"t" + part.text.encode()
    data = bytes(raw)
    if data[:1] == b"{" and b'"cache_control"' in data:
        fields = _decode_fields(data)
        fields.pop("cache_control", None)
        data = msgspec.json.encode(fields)
    return b"p" + canonicalize(data.decode())


def read_text(content: Raw) -> str:
    """The text of a content: a string, or the texts among its parts."""
    return join_texts(read_content(content))


def join_texts(pieces: Sequence[bytes]) -> str:
    return b"".join([piece[1:] for piece in pieces if piece[:1] == b"t"]).decode()


def strip_spaces(text: str) -> str:
    """A text without spaces and line breaks, which clients trim and texts of several turns are joined with."""
    return "".join(text.split())
