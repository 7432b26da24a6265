"""Responses that have ended, as far as they are looked at to be kept."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.responses import events
from gateway.conversation.dialects.responses.echoed import ECHOING_FIELDS, EchoedFields
from gateway.conversation.dialects.responses.items import NULL, UNREADABLE_ITEM
from gateway.domain.exchange import Reply


class FinishedItem(msgspec.Struct, gc=False):
    """An item of a response that has ended."""

    id: str | None = None
    container_id: str | None = None  # of the one that its code ran in
    environment: Any = None  # that its commands ran in, which may be a container

    def list_containing(self) -> list[str]:
        """Its id, and that of the container that it used."""
        named = self.environment.get("container_id") if isinstance(self.environment, dict) else None
        container = self.container_id or (named if isinstance(named, str) else None)
        return [name for name in (self.id, container) if name]


class FinishedResponse(msgspec.Struct):
    """What is looked at in a response that has ended."""

    id: str
    status: str
    output: list[FinishedItem]
    usage: Raw = NULL

    def read_usage(self) -> dict[str, Any] | None:
        """What it used; None if it does not say so, or nobody can read it."""
        try:
            return _decode_usage(self.usage) or None
        except UNREADABLE_ITEM:
            return None


class _EndEvent(msgspec.Struct):
    type: str
    response: FinishedResponse


class _EndBody(msgspec.Struct):
    response: Raw


# A response with the fields that it repeats.
EchoingFinished = msgspec.defstruct("EchoingFinished", ECHOING_FIELDS, bases=(FinishedResponse,))

_decode_echoing: Callable[[bytes], Any] = msgspec.json.Decoder(EchoingFinished).decode
_decode_usage = msgspec.json.Decoder(dict[str, Any] | None).decode
_decode_ended = msgspec.json.Decoder(FinishedResponse).decode
_decode_end = msgspec.json.Decoder(_EndEvent).decode
_decode_end_body = msgspec.json.Decoder(_EndBody).decode


class EndedResponse(msgspec.Struct, frozen=True, gc=False):
    """A response that has ended, as the client sees it."""

    read: FinishedResponse
    source: bytes  # the response itself, or the event that carries it
    in_event: bool = False

    @property
    def body(self) -> bytes:
        return bytes(_decode_end_body(self.source).response) if self.in_event else self.source


def show_whole(reply: Reply, echoed: EchoedFields) -> None:
    """Put the client's own fields over those that a whole response repeats; it is read once for all who look at it."""
    try:
        read = _decode_echoing(reply.body)
    except UNREADABLE_ITEM:
        reply.body = echoed.restore_body(reply.body)
        return
    reply.body, reply.read, reply.usage = echoed.restore_read(reply.body, read), read, read.read_usage()


def list_named(output: Sequence[FinishedItem]) -> list[str]:
    """What the items of a response are called, and the containers that they used: those are the caller's too."""
    names: list[str] = []
    for item in output:
        if item.container_id is not None or item.environment is not None:
            names += item.list_containing()
        elif item.id:
            names.append(item.id)
    return names


def read_ended(body: bytes, read: FinishedResponse | None = None) -> EndedResponse | None:
    """A whole response, which may have been read before; None if it is none."""
    try:
        return EndedResponse(read or _decode_ended(body), body)
    except UNREADABLE_ITEM:
        return None


def find_ended_response(data: bytes) -> EndedResponse | None:
    """The response that the last of these events ends; None if none of them ends one."""
    start = data.rfind(events.BLANK_LINE, 0, -len(events.BLANK_LINE)) + len(events.BLANK_LINE)
    if start >= len(events.BLANK_LINE) and (ended := read_end(data[start:])) is not None:
        return ended
    return next(filter(None, map(read_end, reversed(sse.split_events(data)))), None)


def read_end(event: bytes) -> EndedResponse | None:
    """The response that an event ends."""
    payload = sse.read_payload(event) or b""
    try:
        ended = _decode_end(payload)
    except UNREADABLE_ITEM:
        return None
    return EndedResponse(ended.response, payload, in_event=True) if ended.type in events.ENDS else None
