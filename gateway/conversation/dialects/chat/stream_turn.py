"""One turn of a stream: its chunks, read only as far as needed, and the message that they add up to."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway import sse
from gateway.conversation.dialects.chat.calls import CallTracker
from gateway.conversation.dialects.chat.merge import merge_deltas
from gateway.conversation.dialects.raw_body import UNREADABLE
from gateway.errors import UpstreamInvalid

_encode = msgspec.json.Encoder().encode


@dataclass
class StreamTurn:
    """What is known of the turn whose stream is being read."""

    tracker: CallTracker
    unread: list[bytes] = field(default_factory=list)  # raw events, parsed only if the message is needed
    unread_size: int = 0
    message: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)  # id, created and model, once the message was assembled
    has_role: bool = False  # a delta of the message named the role
    has_text: bool = False
    held: list[bytes] = field(default_factory=list)  # events withheld until we know that this turn is the last
    role_shown: bool = False  # whether the client knew the role before they were withheld
    finish_reason: str | None = None
    finish_event: dict[str, Any] | None = None  # a finish that waits for the hidden turns to be stored
    usage: dict[str, Any] | None = None
    usage_event: dict[str, Any] | None = None
    done: bool = False
    rejoined: set[str] = field(default_factory=set)  # fields whose text continues that of an earlier turn

    def assemble(self) -> None:
        """Add the unread events to the message."""
        unread, self.unread, self.unread_size = self.unread, [], 0
        deltas: list[dict[str, Any]] = []
        for event in sse.split_events(b"".join(unread)):
            data = sse.read_payload(event)
            if not data or data == sse.DONE:
                continue
            chunk = decode_chunk(data)
            if not chunk.choices:
                continue  # what some providers send first has no id yet
            self.head = self.head or chunk.head
            deltas += (choice.delta for choice in chunk.choices if choice.delta)
        self.has_role = self.has_role or any(delta.get("role") for delta in deltas)
        merge_deltas(self.message, *deltas)

    def encode_message(self, number: int) -> bytes:
        """The message of turn `number` as it goes back upstream; empty when nothing will need it."""
        calls = self.tracker.calls
        if not calls:
            return b""
        for position, call in enumerate(calls):
            call.parts["id"] = call.id or f"call_{number}_{position}"
        message = {"role": "assistant", "content": None, **self.message}
        return _encode({**message, "tool_calls": [call.parts for call in calls]})


class ChunkChoice(msgspec.Struct):
    delta: dict[str, Any] | None = None


class StreamChunk(msgspec.Struct):
    """A chunk as far as the assistant's message is concerned."""

    id: Any = None
    created: Any = None
    model: Any = None
    choices: list[ChunkChoice] | None = None

    @property
    def head(self) -> dict[str, Any]:
        """What is the same in all chunks of a stream."""
        fields = {"id": self.id, "created": self.created, "model": self.model}
        return {key: value for key, value in fields.items() if value is not None}


_decode = msgspec.json.Decoder(StreamChunk).decode


def decode_chunk(data: bytes) -> StreamChunk:
    """The chunk that an event carries; raises UpstreamInvalid if it carries none."""
    try:
        return _decode(data)
    except UNREADABLE as fault:
        raise build_chunk_error() from fault


def build_chunk_error() -> UpstreamInvalid:
    return UpstreamInvalid("The upstream's stream carries something that is not a chunk.")
