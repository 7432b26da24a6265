"""A prompt's template takes the place of the last user text."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from gateway.domain.template import Part, Placeholder, fill
from gateway.errors import InvalidRequest, MissingVariable
from gateway.injection.place import inside, last_user_message, text_part

_object = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


def takes_context(parts: tuple[Part, ...]) -> bool:
    """Whether the blocks belong into the template and nowhere else."""
    return Placeholder("context") in parts


def last_user_text(messages: list[Raw]) -> str:
    """The text of the last user message, its text parts joined; "" if there is none."""
    position = last_user_message(messages)
    if position is None:
        return ""
    content = _object.decode(messages[position]).get("content")
    return text_of(msgspec.json.decode(content)) if content is not None else ""


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if is_text(part))


def is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


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
    try:
        parts = msgspec.json.decode(content, type=list[Raw])
        texts = [is_text(msgspec.json.decode(part)) for part in parts]
    except msgspec.MsgspecError as fault:
        raise InvalidRequest("A message's content parts cannot be read.", param="messages") from fault
    first = texts.index(True) if True in texts else 0
    kept = [part for part, textual in zip(parts, texts, strict=True) if not textual]
    before = sum(1 for textual in texts[:first] if not textual)
    return [*kept[:before], text_part(inside(text)), *kept[before:]]
