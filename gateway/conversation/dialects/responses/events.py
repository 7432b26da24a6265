"""Events of a responses stream: which they are, and how they are written."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.openai_errors import replace_surrogates
from gateway.conversation.dialects.responses.items import UNREADABLE_ITEM, read_odd
from gateway.errors import GatewayError, UpstreamInvalid

STARTS = ("response.created", "response.in_progress", "response.queued")
ENDS = ("response.completed", "response.incomplete", "response.failed")
CARRYING = frozenset((*STARTS, *ENDS))  # that carry the response itself
FAILED = "response.failed"
ERROR = "error"
ITEM_ADDED, ITEM_DONE = "response.output_item.added", "response.output_item.done"
TEXT_DELTA = "response.output_text.delta"

PLAIN_START = b"event: response.output_text.delta\ndata: "
NAME = b"event: "
NAMED = NAME + b"response."
DATA = b"\ndata: "  # behind the name of an event
BLANK_LINE = b"\n\n"

_encode = msgspec.json.Encoder().encode


class TextRun(msgspec.Struct, frozen=True, gc=False):
    """Events at the start of others that tell of texts and nothing else."""

    size: int  # in bytes
    sequence: int  # of the last one, -1 if it has none


class TextEvents:
    """Finds events that tell of texts and nothing else by how they begin: their name and the type in them."""

    def __init__(self, kinds: bytes) -> None:
        begin = rb'event: (response\.(?:%b))\ndata: \{"type":"\1",' % kinds
        self._match_first = re.compile(begin).match
        self._find_other = re.compile(rb"\n\n(?!%b|\Z)" % begin).search  # the end of one that another kind follows

    def find_run(self, data: bytes) -> TextRun | None:
        """The leading events that are such; None if the first one is not, or they are not certain to be."""
        if self._match_first(data) is None or b"\r" in data:
            return None
        found = self._find_other(data)
        end = len(data) if found is None else found.end()
        payloads = _EVENT_BORDER.sub(b",", data[data.find(DATA) + len(DATA) : end])
        return read_run(_decode_texts, payloads, data.count(BLANK_LINE, 0, end), end)


def find_pieces(data: bytes) -> TextRun | None:
    """All of these events, if each is a piece of text: most of a stream is, so that is found without an expression."""
    if not data.startswith(_PIECE) or b"\r" in data:
        return None
    payloads = data[len(PLAIN_START) :].split(_PIECE_BORDER)
    if len(payloads) != data.count(BLANK_LINE):
        return None
    return read_run(_decode_pieces, _PIECE_START.join(payloads), len(payloads), len(data))


def read_run(decode: "DecodeTexts", payloads: bytes, count: int, size: int) -> TextRun | None:
    """So many events of so many bytes, if each carries JSON of the right type; a type may be there twice."""
    try:
        # No JSON contains a line feed inside a string: the events become one array, which is checked in one go.
        told = decode(b"[" + payloads + b"]")
    except UNREADABLE_ITEM:
        return None
    if len(told) != count:
        return None
    last = told[-1].sequence_number
    return TextRun(size, last if type(last) is int else -1)


TEXT_PIECES = TextEvents(rb"output_text\.delta")
TEXT_PARTS = TextEvents(rb"output_text\.(?:delta|done)|content_part\.(?:added|done)")  # of items that were announced
_TYPE = b'{"type":"response.output_text.delta",'
_PIECE, _PIECE_START, _PIECE_BORDER = PLAIN_START + _TYPE, b"," + _TYPE, BLANK_LINE + PLAIN_START + _TYPE
# It begins with a literal, which a search skips to: an alternative there would be tried at every byte.
_EVENT_BORDER = re.compile(rb"\n\nevent: [^\n]*\ndata: ")
_SEQUENCE = re.compile(rb'"sequence_number"\s*:\s*(\d{1,15})')


class _EventType(msgspec.Struct):
    type: str = ""


class _TextEvent(msgspec.Struct, gc=False):
    type: Literal[
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.added",
        "response.content_part.done",
    ]
    sequence_number: Any = None


class _PieceEvent(_TextEvent, gc=False):
    type: Literal["response.output_text.delta"]


DecodeTexts = Callable[[bytes], Sequence[_TextEvent]]
_decode_texts: DecodeTexts = msgspec.json.Decoder(list[_TextEvent]).decode
_decode_pieces: DecodeTexts = msgspec.json.Decoder(list[_PieceEvent]).decode
_decode_type = msgspec.json.Decoder(_EventType).decode
decode_event: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode
decode_text: Callable[[bytes], str] = msgspec.json.Decoder(str).decode
decode_index: Callable[[bytes], int] = msgspec.json.Decoder(int).decode


def read_type(data: bytes) -> str:
    """The type of an event's payload, "" if it has none."""
    try:
        return _decode_type(data).type
    except UNREADABLE_ITEM:
        return read_odd_type(data)


def read_odd_type(data: bytes) -> str:
    """The same for JSON that only others read."""
    try:
        top = read_odd(data)
    except UpstreamInvalid:
        return ""
    kind = top.get("type") if isinstance(top, dict) else None
    return kind if isinstance(kind, str) else ""


def read_kind(event: bytes) -> str:
    """The type of an event, from its name where it has one of ours."""
    if event.startswith(NAMED):
        return event[len(NAME) : event.find(b"\n")].strip().decode("latin-1")
    return read_type(sse.read_payload(event) or b"")


def encode_typed_event(kind: str, fields: dict[str, Any]) -> bytes:
    """An event with its name, as OpenAI writes it."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode(fields))


def find_last_sequence(data: bytes) -> int:
    """The last sequence number among these events, -1 if there is none."""
    return max((int(found) for found in _SEQUENCE.findall(data)), default=-1)


def render_error_event(error: GatewayError, sequence: int) -> bytes:
    """An error as the last event; clients look for its fields beside its type or below `error`."""
    param = None if error.param is None else replace_surrogates(error.param)
    told = {"code": error.code, "message": replace_surrogates(error.message), "param": param}
    fields = {"type": ERROR, "sequence_number": sequence, **told, "error": {"type": error.kind, **told}}
    return encode_typed_event(ERROR, fields)


def build_event_error() -> UpstreamInvalid:
    return UpstreamInvalid("The upstream's stream carries something that is not an event of a response.")
