"""A prompt's template takes the place of the last user text."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from gateway.domain.template import Part, Placeholder, fill
from gateway.errors import MissingVariable
from gateway.injection.place import inside, last_user_message, text_part

_object = msgspec.json.Decoder(dict[str, Raw])
_parts = msgspec.json.Decoder(list[Raw])
_encode = msgspec.json.Encoder().encode


class _Part(msgspec.Struct):
    type: str | None = None
    text: str | None = None


_part = msgspec.json.Decoder(_Part)


def takes_context(parts: tuple[Part, ...]) -> bool:
    """Whether the blocks belong into the template and nowhere else."""
    return Placeholder("context") in parts


def last_user_text(messages: list[Raw]) -> str:
    """The text of the last user message, its text parts joined; "" if there is none."""
    position = last_user_message(messages)
    content = None if position is None else _object.decode(messages[position]).get("content")
    if content is None:
        return ""
    match bytes(content)[:1]:
        case b'"':
            return str(msgspec.json.decode(content))
        case b"[":
            return "\n".join(text for part in _parts.decode(content) if (text := text_of(part)) is not None)
    return ""


def text_of(part: Raw) -> str | None:
    """The text of a text part, None for any other; whether those are well-formed is the upstream's business."""
    try:
        read = _part.decode(part)
    except msgspec.ValidationError:
        return None
    return read.text if read.type == "text" else None


def filled(parts: tuple[Part, ...], values: Mapping[str, str]) -> str:
    try:
        return fill(parts, values)
    except KeyError as missing:
        name = str(missing.args[0])
        raise MissingVariable(f"The prompt's template needs {name}.", param=f"context.{name}") from missing


def replace_user_text(messages: list[Raw], text: str) -> list[Raw]:
    """The messages with `text` instead of the last user text; other parts (images, audio) stay."""
    position = last_user_message(messages)
    if position is None:
        return [*messages, Raw(_encode({"role": "user", "content": text}))]
    message = _object.decode(messages[position])
    content = message.get("content")
    if content is not None and bytes(content)[:1] == b"[":
        message["content"] = Raw(_encode(with_text(content, text)))
    else:
        message["content"] = Raw(_encode(text))
    return [*messages[:position], Raw(_encode(message)), *messages[position + 1 :]]


def with_text(content: Raw, text: str) -> list[Raw]:
    """The parts with `text` where the first text stood."""
    parts = _parts.decode(content)
    textual = [text_of(part) is not None for part in parts]
    first = textual.index(True) if True in textual else 0
    kept = [part for part, replaced in zip(parts, textual, strict=True) if not replaced]
    return [*kept[:first], text_part(inside(text)), *kept[first:]]
