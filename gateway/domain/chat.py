"""A chat request, decoded only as far as somebody has to look."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec
from msgspec import Raw


class MessageStyle(IntEnum):
    """How messages are written, as far as their first bytes tell; the greater, the more has to be looked at."""

    SPOKEN = 0  # each an object with the role of a speaker first
    ANSWERING = 1  # there are results of tools among them
    UNUSUAL = 2  # objects that begin with something else
    INVALID = 3  # not objects


@dataclass(slots=True)
class ChatRequest:
    """The client's body: top-level fields and messages stay raw, so that they keep their bytes."""

    raw: bytes
    fields: dict[str, Raw]  # without messages
    messages: list[Raw]
    model: str | None
    stream: bool
    style: MessageStyle = MessageStyle.UNUSUAL

    @property
    def may_answer_calls(self) -> bool:
        """Whether results of tools may be among the messages; False is certain."""
        return self.style is not MessageStyle.SPOKEN and b'"tool_calls"' in self.raw

    def has(self, name: str) -> bool:
        """Whether a field is given and not null."""
        value = self.fields.get(name)
        return value is not None and bytes(value) != b"null"

    @property
    def wants_usage(self) -> bool:
        """Whether a stream should end with its usage."""
        options = self.get("stream_options")
        return self.stream and isinstance(options, dict) and options.get("include_usage") is True

    @property
    def wants_json(self) -> bool:
        """Whether the answer has to be one JSON document."""
        wanted = self.get("response_format")
        return isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema")

    def get(self, name: str) -> Any:
        """A field's value, None where it is absent."""
        return msgspec.json.decode(self.fields[name]) if name in self.fields else None


@dataclass(slots=True)
class OutgoingBody:
    """A body ready to be encoded; `unchanged` means that the client's own bytes may be relayed."""

    fields: dict[str, Any]  # without messages
    messages: list[Raw]
    unchanged: bool
