"""Events of a responses stream: which they are, and how they are written."""

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.openai_errors import replace_surrogates
from gateway.conversation.dialects.responses.items import UNREADABLE_ITEM
from gateway.errors import GatewayError, UpstreamInvalid

STARTS = ("response.created", "response.in_progress", "response.queued")
ENDS = ("response.completed", "response.incomplete", "response.failed")
FAILED = "response.failed"
ERROR = "error"
ITEM_ADDED, ITEM_DONE = "response.output_item.added", "response.output_item.done"
TEXT_DELTA = "response.output_text.delta"

PLAIN_START = b"event: response.output_text.delta\ndata: "
NAME = b"event: "
NAMED = NAME + b"response."
PLAIN_BORDER = b"\n\n" + PLAIN_START

_encode = msgspec.json.Encoder().encode
_SEQUENCE = re.compile(rb'"sequence_number"\s*:\s*(\d{1,15})')


class _TextDelta(msgspec.Struct, gc=False):
    """A piece of text and nothing else."""

    type: Literal["response.output_text.delta"]
    output_index: int
    sequence_number: int = -1


class _EventType(msgspec.Struct):
    type: str = ""


_decode_plain = msgspec.json.Decoder(list[_TextDelta]).decode
_decode_type = msgspec.json.Decoder(_EventType).decode
decode_event: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode
decode_text: Callable[[bytes], str] = msgspec.json.Decoder(str).decode
decode_index: Callable[[bytes], int] = msgspec.json.Decoder(int).decode


def read_type(data: bytes) -> str:
    """The type of an event's payload, "" if it has none."""
    try:
        return _decode_type(data).type
    except UNREADABLE_ITEM:
        return ""


def read_kind(event: bytes) -> str:
    """The type of an event, from its name where it has one of ours."""
    if event.startswith(NAMED):
        return event[len(NAME) : event.find(b"\n")].strip().decode("latin-1")
    return read_type(sse.read_payload(event) or b"")


def read_plain_events(data: bytes) -> int | None:
    """The last sequence number of events that are pieces of text and nothing else; None if they are more."""
    if not data.startswith(PLAIN_START) or not data.endswith(b"\n\n"):
        return None
    try:
        # No JSON contains a line feed inside a string: the events become one array, which is checked in one go.
        found = _decode_plain(b"[" + data[len(PLAIN_START) :].replace(PLAIN_BORDER, b",") + b"]")
    except UNREADABLE_ITEM:
        return None
    return found[-1].sequence_number if len(found) == data.count(PLAIN_BORDER) + 1 else None


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
