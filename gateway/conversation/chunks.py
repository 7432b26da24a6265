"""The chunks of a stream, read only as far as somebody needs it."""

from typing import Any

import msgspec

from gateway.errors import UpstreamInvalid

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


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
        said = {"id": self.id, "created": self.created, "model": self.model}
        return {key: value for key, value in said.items() if value is not None}


_decode = msgspec.json.Decoder(StreamChunk).decode


def read_chunk(data: bytes) -> StreamChunk:
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


def grow(message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add one delta (without its tool calls) to the message; unknown fields are kept."""
    for key, value in delta.items():
        if value is None or key in ("tool_calls", "role"):
            continue
        known = message.get(key)
        if isinstance(known, str) and isinstance(value, str):
            message[key] = known + value
        elif isinstance(known, list) and isinstance(value, list):
            extend(known, value)
        elif isinstance(known, dict) and isinstance(value, dict):
            message[key] = known | value
        else:
            message[key] = (
                [dict(item) if isinstance(item, dict) else item for item in value] if isinstance(value, list) else value
            )


def extend(known: list[Any], added: list[Any]) -> None:
    """Append list items, continuing the item that a fragment belongs to.

    Reasoning blocks arrive in fragments: numbered ones carry an `index`; others continue the last item of their type
    until a signature closes it.
    """
    for item in added:
        target = continued(known, item)
        if target is None:
            known.append(dict(item) if isinstance(item, dict) else item)
            continue
        for key, value in item.items():
            grows = isinstance(value, str) and isinstance(target.get(key), str) and key in FRAGMENTED
            target[key] = target[key] + value if grows else value


FRAGMENTED = frozenset({"thinking", "text", "summary", "signature", "data"})


def continued(known: list[Any], item: Any) -> dict[str, Any] | None:
    """The item of `known` that `item` is a further fragment of."""
    if not isinstance(item, dict):
        return None
    if "index" in item:
        return next((old for old in known if isinstance(old, dict) and old.get("index") == item["index"]), None)
    last = known[-1] if known else None
    if isinstance(last, dict) and last.get("type") == item.get("type") == "thinking" and not last.get("signature"):
        return last
    return None
