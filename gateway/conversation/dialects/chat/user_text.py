"""The last user text of a chat conversation: reading it, and putting another in its place."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.chat.placement import encode_text_part, find_last_user_message
from gateway.domain.json_text import escape_json

_encode = msgspec.json.Encoder().encode
_object = msgspec.json.Decoder(dict[str, Raw])
_parts = msgspec.json.Decoder(list[Raw])


def read_last_user_text(messages: Sequence[Raw]) -> str:
    """The text of the last user message, its text parts joined; "" if there is none."""
    position = find_last_user_message(messages)
    content = None if position is None else _object.decode(messages[position]).get("content")
    if content is None:
        return ""
    match bytes(content)[:1]:
        case b'"':
            return str(msgspec.json.decode(content))
        case b"[":
            return "\n".join(text for part in _parts.decode(content) if (text := read_text(part)) is not None)
    return ""


class _Part(msgspec.Struct):
    type: str | None = None
    text: str | None = None


_part = msgspec.json.Decoder(_Part)


def read_text(part: Raw) -> str | None:
    """The text of a text part, None for any other; whether those are well-formed is left to the upstream."""
    try:
        read = _part.decode(part)
    except msgspec.ValidationError:
        return None
    return read.text if read.type == "text" else None


def replace_user_text(messages: Sequence[Raw], text: str) -> list[Raw]:
    """The messages with `text` instead of the last user text; other parts (images, audio) stay."""
    position = find_last_user_message(messages)
    if position is None:
        return [*messages, Raw(_encode({"role": "user", "content": text}))]
    message = _object.decode(messages[position])
    content = message.get("content")
    if content is not None and bytes(content)[:1] == b"[":
        message["content"] = Raw(_encode(replace_text(content, text)))
    else:
        message["content"] = Raw(_encode(text))
    return [*messages[:position], Raw(_encode(message)), *messages[position + 1 :]]


def replace_text(content: Raw, text: str) -> list[Raw]:
    """The parts with `text` in the place of the first text."""
    parts = _parts.decode(content)
    textual = [read_text(part) is not None for part in parts]
    first = textual.index(True) if True in textual else 0
    kept = [part for part, replaced in zip(parts, textual, strict=True) if not replaced]
    return [*kept[:first], encode_text_part(escape_json(text)), *kept[first:]]
