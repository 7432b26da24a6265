"""The chunks of a stream, read only as far as somebody needs it."""

from typing import Any

import msgspec

from gateway.errors import UpstreamInvalid

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Choice(msgspec.Struct):
    delta: dict[str, Any] | None = None


class Chunk(msgspec.Struct):
    """A chunk as far as the assistant's message is concerned."""

    id: Any = None
    created: Any = None
    model: Any = None
    choices: list[Choice] | None = None

    @property
    def head(self) -> dict[str, Any]:
        """What is the same in all chunks of a stream."""
        said = {"id": self.id, "created": self.created, "model": self.model}
        return {key: value for key, value in said.items() if value is not None}


_decode = msgspec.json.Decoder(Chunk).decode


def read_chunk(data: bytes) -> Chunk:
    """The chunk that an event carries; raises UpstreamInvalid if it carries none."""
    try:
        return _decode(data)
    except UNREADABLE as fault:
        raise not_a_chunk() from fault


def not_a_chunk() -> UpstreamInvalid:
    return UpstreamInvalid("The upstream's stream carries something that is not a chunk.")


def given(fields: dict[str, Any], name: str) -> bool:
    raw = fields.get(name)
    return raw is not None and bytes(raw) != b"null"


def is_plain_text(data: bytes) -> bool:
    """Whether events surely carry nothing but text, so that they may pass unread.

    A text that merely mentions one of these words is read properly instead: slower, never wrong.
    """
    return not (
        b"tool_calls" in data
        or b"[DONE]" in data
        or b'"error"' in data
        or (b'"usage"' in data and data.count(b'"usage"') != data.count(b'"usage":null') + data.count(b'"usage": null'))
        or data.count(b"finish_reason") != data.count(b'finish_reason":null') + data.count(b'finish_reason": null')
    )
