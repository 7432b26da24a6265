"""Fields of a request that responses repeat: the client sees them as it sent them."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.responses import events
from gateway.conversation.dialects.responses.items import UNREADABLE_ITEM, decode_object, read_odd, write_odd

# What responses say where the request says nothing.
ECHOED = {
    "instructions": Raw(b"null"),
    "tools": Raw(b"[]"),
    "tool_choice": Raw(b'"auto"'),
    "previous_response_id": Raw(b"null"),
    "max_tool_calls": Raw(b"null"),
}
DEFAULTS = tuple(ECHOED.values())
MARKS = tuple(f'"{name}":'.encode() for name in ECHOED)
ABSENT = Raw()
UNREADABLE_RESPONSE = (*UNREADABLE_ITEM, KeyError, TypeError)

ECHOING_FIELDS: list[tuple[str, Any, Any]] = [(name, Raw, ABSENT) for name in ECHOED]
EchoingResponse = msgspec.defstruct("EchoingResponse", ECHOING_FIELDS)
EchoingEvent = msgspec.defstruct("EchoingEvent", [("response", EchoingResponse)])

_encode = msgspec.json.Encoder().encode
_list_told: Callable[[Any], tuple[Raw, ...]] = attrgetter(*ECHOED)
_read_response: Callable[[bytes], Any] = msgspec.json.Decoder(EchoingResponse).decode
_read_event: Callable[[bytes], Any] = msgspec.json.Decoder(EchoingEvent).decode


class EchoedFields(msgspec.Struct, frozen=True):
    """Fields of a request that responses repeat, as the client sent them: it does not see what we added."""

    given: Mapping[str, Raw]  # all fields of the request

    @staticmethod
    def select(fields: Mapping[str, Raw]) -> dict[str, Raw]:
        """Those of the fields that responses repeat."""
        return {name: fields[name] for name in ECHOED.keys() & fields.keys()}

    def restore(self, response: dict[str, Any]) -> dict[str, Any]:
        """The response with these fields, where it has them."""
        return response | self._select_told(response)

    def _select_told(self, response: dict[str, Any]) -> dict[str, Raw]:
        """What the response would have said to the client's own request, where it has such a field."""
        return {name: self.given.get(name, default) for name, default in ECHOED.items() if name in response}

    def restore_body(self, body: bytes) -> bytes:
        """A whole response with these fields; other JSON as it is. Raises UpstreamInvalid if nobody can read it."""
        try:
            return self.restore_read(body, _read_response(body))
        except UNREADABLE_RESPONSE:
            return self._restore_odd(body)

    def restore_read(self, body: bytes, told: Any) -> bytes:
        """The same for a response whose own fields are known."""
        try:
            replaced = self._replace(body, told)
            return _encode(self.restore(decode_object(body))) if replaced is None else replaced
        except UNREADABLE_RESPONSE:
            return self._restore_odd(body)

    def restore_event(self, kind: str, event: bytes) -> bytes:
        """An event of this kind, whose response has these fields; one that carries none as it is.

        Raises UpstreamInvalid if nobody can read it.
        """
        try:
            return self.restore_read_event(kind, event, _read_event(sse.read_payload(event) or b"").response)
        except UNREADABLE_RESPONSE:
            return self._restore_odd_event(kind, event)

    def restore_read_event(self, kind: str, event: bytes, told: Any) -> bytes:
        """The same for an event whose response is known."""
        try:
            replaced = self._replace(event, told)
            if replaced is not None:
                return replaced
            top = events.decode_event(sse.read_payload(event) or b"")
            return events.encode_typed_event(kind, {**top, "response": self.restore(decode_object(top["response"]))})
        except UNREADABLE_RESPONSE:
            return self._restore_odd_event(kind, event)

    def _restore_odd(self, body: bytes) -> bytes:
        """The same for a response that clients may read although we do not: it tells them what we added."""
        response = read_odd(body)
        return write_odd(self._restore_values(response)) if isinstance(response, dict) else body

    def _restore_odd_event(self, kind: str, event: bytes) -> bytes:
        payload = sse.read_payload(event)
        top = read_odd(payload) if payload else None
        if not isinstance(top, dict) or not isinstance(response := top.get("response"), dict):
            return event
        told = write_odd({**top, "response": self._restore_values(response)})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), told)

    def _restore_values(self, response: dict[str, Any]) -> dict[str, Any]:
        return response | {name: read_odd(bytes(one)) for name, one in self._select_told(response).items()}

    def _replace(self, data: bytes, told: Any) -> bytes | None:
        """`data`, which tells of a response, with these fields put over its own; None if it is not certain where."""
        own = map(self.given.get, ECHOED, DEFAULTS)
        for mark, said, wanted in zip(MARKS, _list_told(told), own, strict=True):
            if said != wanted and said is not ABSENT:
                replaced = write_over(data, mark, said, wanted)
                if replaced is None:
                    return None
                data = replaced
        return data


def write_over(data: bytes, mark: bytes, said: Raw, wanted: Raw) -> bytes | None:
    """`data` with another value behind this mark, the name of a field; None if that may be there more than once.

    A schema of a tool or metadata of the client may have a field of the same name.
    """
    before, _, after = data.partition(mark)
    if data.count(mark[:-1]) > 1 or not after.startswith(bytes(said)):
        return None
    return b"".join((before, mark, wanted, after[len(said) :]))
