"""Streams as no upstream should send them: events moved, repeated, left out, renumbered, cut or of the wrong shape."""

import random
import re

from gateway.domain.dialect import DialectName

NUMBERS = (b"0", b"-1", b"7", b'"x"', b"null", b"1e9", b"99999999999999999999")
VALUES = (b":null", b":[]", b":{}", b":1", b":true", b':""')
ERRORS: dict[DialectName, bytes] = {
    "chat": b'data: {"error":{"message":"boom"}}\n\n',
    "responses": b'event: error\ndata: {"type":"error","code":"x","message":"boom","param":null}\n\n',
    "messages": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"boom"}}\n\n',
}
UNKNOWN = b'event: response.new.thing\ndata: {"type":"response.new.thing","x":[1]}\n\n'


def split_stream(stream: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in stream.split(b"\n\n")[:-1]]


def spoil(stream: bytes, dialect: DialectName, chance: random.Random) -> list[bytes]:
    """The events of a stream with one to three things wrong."""
    events = split_stream(stream)
    for _ in range(chance.choice((1, 1, 2, 3))):
        spoil_once(events, ERRORS[dialect], chance)
        events = events or [b": nothing\n\n"]
    return events


def spoil_once(events: list[bytes], error: bytes, chance: random.Random) -> None:
    at, other = chance.randrange(len(events)), chance.randrange(len(events))
    event = events[at]
    match chance.randrange(9):
        case 0:
            events[at], events[other] = events[other], event
        case 1:
            events.insert(other, event)
        case 2:
            del events[at]
        case 3:
            events.insert(at, UNKNOWN)
        case 4:
            numbered = rb'"(output_index|index|sequence_number)":\d+'
            events[at] = re.sub(numbered, lambda found: b'"%b":%b' % (found[1], chance.choice(NUMBERS)), event)
        case 5:
            events[at] = event.replace(b'":"', b'":"\xff\xfe', 1)
        case 6:
            events[at] = event[: len(event) // 2] + b"\n\n"
        case 7:
            events[at] = re.sub(rb':"[^"]*"', lambda _: chance.choice(VALUES), event, count=1)
        case 8:
            events.insert(at, error)
