"""Events that carry the response itself, read in one pass as far as anybody looks at a response that calls nothing."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.responses import events
from gateway.conversation.dialects.responses.echoed import ABSENT, ECHOING_FIELDS, UNREADABLE_RESPONSE
from gateway.conversation.dialects.responses.reply import FIRST_FIELDS, UNFINISHED, calls_nothing, read_heads
from gateway.conversation.turn import Turn

ANSWERS = ("response.completed", "response.incomplete")  # events that end a response which has not failed
NAMES = tuple(f"event: {kind}\n".encode() for kind in (*events.STARTS, *ANSWERS))

CARRIED_FIELDS: list[tuple[str, Any, Any]] = [
    *((name, Raw, ABSENT) for name in FIRST_FIELDS),
    ("output", Raw, ABSENT),
    ("status", Any, None),
    ("usage", dict[str, Any] | None, None),
    *ECHOING_FIELDS,
]
CarriedResponse = msgspec.defstruct("CarriedResponse", CARRIED_FIELDS)
CarryingEvent = msgspec.defstruct(
    "CarryingEvent", [("type", str), ("sequence_number", int), ("response", CarriedResponse)]
)

_decode: Callable[[bytes], Any] = msgspec.json.Decoder(CarryingEvent).decode
_decode_any = msgspec.json.decode


def read_event(event: bytes) -> Any:
    """A CarryingEvent; None for any other event, for one that tells of a failure, and for one that is written oddly."""
    if not event.startswith(NAMES):
        return None
    try:
        event.isascii() or event.decode()
        return _decode(sse.read_payload(event) or b"")
    except UNREADABLE_RESPONSE:
        return None


def list_first_fields(response: Any) -> dict[str, Raw]:
    """What the client sees of the first of all turns, as far as this response has it."""
    return {name: value for name in FIRST_FIELDS if (value := getattr(response, name)) is not ABSENT}


def is_answer(event: Any) -> bool:
    """Whether an event ends a response that has items, none of which is a call that somebody has to answer."""
    output = event.response.output
    if event.type not in ANSWERS or output is ABSENT:
        return False
    try:
        heads = read_heads(output)
    except UNREADABLE_RESPONSE:
        return False
    return bool(heads) and calls_nothing(heads)


def make_turn(response: Any) -> Turn:
    """What the loop has to know of such a response; nobody asks what it says."""
    identity = None if response.id is ABSENT else _decode_any(response.id)
    name = "" if identity is None else str(identity)
    return Turn(bytes(response.output), [], "", response.status in UNFINISHED, response.usage, name)
