"""A chat request in any dialect, decoded only as far as somebody has to look."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import msgspec
from msgspec import Raw

from gateway.domain.dialect import RequestDialect

PAUSE_BYTES = 256 * 1024  # of a body from which each step takes milliseconds: others have their turn between them


class MessageStyle(IntEnum):
    """How messages are written, as far as their first bytes tell; the greater, the more has to be looked at."""

    SPOKEN = 0  # each an object with the role of a speaker first
    ANSWERING = 1  # there are results of tools among them
    UNUSUAL = 2  # objects that begin with something else
    INVALID = 3  # not objects


SPOKEN_STYLE = MessageStyle.SPOKEN  # Python 3.11 takes long to find a member of an enum by its name


class ContinuedResponses(msgspec.Struct, frozen=True):
    """What a request continues: responses that were kept, with results that the client never saw."""

    earlier: tuple[str, ...] = ()  # ids of all responses whose items are among the messages
    told: Mapping[int, tuple[str, ...]] = {}  # ids of resources that a message tells of
    known: tuple[str, ...] = ()  # ids of resources that the upstream's own copy of the conversation tells of
    size: int = 0  # bytes that are kept of these responses


class ChatRequest(msgspec.Struct):
    """The client's body: top-level fields and messages stay raw, so that they keep their bytes."""

    dialect: RequestDialect
    raw: bytes
    fields: dict[str, Raw]  # without messages
    messages: list[Raw]
    model: str | None
    stream: bool
    style: MessageStyle = MessageStyle.UNUSUAL
    previous: str | None = None  # id of the response that it continues
    replaced: Mapping[str, Raw | None] | None = None  # fields that go upstream like this, None: not at all
    continued: ContinuedResponses | None = None

    def find(self, name: str) -> Raw | None:
        """A field that is given and not null, as it was written."""
        value = self.fields.get(name)
        return None if value is None or bytes(value) == b"null" else value

    def has(self, name: str) -> bool:
        """Whether a field is given and not null."""
        return self.find(name) is not None

    def get(self, name: str) -> Any:
        """A field's value, None where it is absent."""
        return msgspec.json.decode(self.fields[name]) if name in self.fields else None


class OutgoingBody(msgspec.Struct):
    """A body ready to be encoded; `unchanged` means that the client's own bytes may be relayed."""

    fields: dict[str, Any]  # without messages
    messages: list[Raw]
    unchanged: bool
