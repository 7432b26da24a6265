"""Putting texts into a Messages body: into `system`, or into what the user says last."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.cache_marker import NAME, SHORT, choose_marker
from gateway.conversation.dialects.chat.placement import (
    OPEN_PART,
    decode_parts,
    encode_text_part,
    split_after,
    surround_content,
)
from gateway.conversation.dialects.chat.user_text import read_text, replace_text
from gateway.conversation.dialects.messages.request import (
    OPENING_BYTES,
    RESULT,
    SPOKEN,
    are_spoken,
    find_last_spoken,
    read_head,
)
from gateway.domain.agent import Placement
from gateway.domain.chat import OutgoingBody
from gateway.domain.injection import PlacedTexts, PlacementTarget
from gateway.domain.json_text import BLANK_LINE, quote_json

SEARCHED_BYTES = 64  # of the stable block, by which it is looked for

_encode = msgspec.json.Encoder().encode
_object = msgspec.json.Decoder(dict[str, Raw])
_parts = msgspec.json.Decoder(list[Raw])


class _PartKind(msgspec.Struct):
    type: str | None = None


_kind = msgspec.json.Decoder(_PartKind)


def place(outgoing: OutgoingBody, texts: PlacedTexts, target: PlacementTarget) -> None:
    """The texts in their places (CONTRACT §3.2): `system` stands for the leading message."""
    apart = bool(texts.volatile) and target.placement is not Placement.SYSTEM
    last = find_last_spoken(outgoing.messages) if apart else None
    blocks = (texts.stable,) if last is not None else (texts.stable, texts.volatile)
    after = BLANK_LINE.join(filter(None, blocks))
    if texts.instructions or after:
        given = outgoing.fields.get("system")
        if target.marks_cache and texts.stable and (marker := find_marker(outgoing)) is not None:
            system = write_marked(given, texts.instructions, blocks, marker)
            if system is None:
                system = mark_stable(surround_content(given, texts.instructions, after), texts.stable, marker)
        else:
            system = surround_content(given, texts.instructions, after)
        outgoing.fields["system"] = system
    messages = list(outgoing.messages)
    if last is not None:
        put_volatile(messages, last, texts.volatile, target.placement)
    outgoing.messages = place_anchored(messages, texts) if texts.anchored else messages


def write_marked(given: Raw | None, before: bytes, blocks: Sequence[bytes], marker: bytes) -> Raw | None:
    """What `mark_stable` makes of a system text around which `before` and the blocks were put, written at once.

    None if that is not certain: where the text has parts, or may itself say what the stable block says.
    """
    raw = b"null" if given is None else bytes(given).strip()
    if raw[:1] != b'"' and raw != b"null":
        return None
    own = b"" if raw == b"null" else raw[1:-1]
    stable, *rest = filter(None, blocks)
    leading = OPEN_PART + b"".join([piece + BLANK_LINE for piece in (before, own) if piece])
    start = stable[:SEARCHED_BYTES]
    if (leading + start[:-1]).find(start) >= 0:
        return None
    written = [b"[", leading, stable, b'","cache_control":', marker, b"}"]
    if rest:
        written += (b",", OPEN_PART, rest[0], b'"}')
    return Raw(b"".join([*written, b"]"]))


def mark_stable(system: Raw, stable: bytes, marker: bytes) -> Raw:
    """The system text with a block that ends where the stable block ends, marked for the prompt cache."""
    content = bytes(system)
    parts = [encode_text_part(content[1:-1])] if content[:1] == b'"' else decode_parts(content)
    return Raw(_encode([piece for part in parts for piece in split_after(part, stable, marker)]))


def find_marker(outgoing: OutgoingBody) -> bytes | None:
    """The marker of the stable block, which stands behind the client's `system`."""
    fields = [value for value in outgoing.fields.values() if isinstance(value, Raw)]
    if NAME not in b"".join(fields) and "cache_control" not in outgoing.fields and are_spoken(outgoing.messages):
        return SHORT
    parted = [one for one in outgoing.messages if not bytes(memoryview(one)[:OPENING_BYTES]).startswith(SPOKEN)]
    return choose_marker(outgoing.fields, fields, parted)


def put_volatile(messages: list[Raw], position: int, text: bytes, placement: Placement) -> None:
    if placement is Placement.TURN and not holds_result(messages[position]):
        messages.insert(position, Raw(_encode({"role": "system", "content": quote_json(text)})))
    else:
        put_before_words(messages, position, text)


def place_anchored(messages: list[Raw], texts: PlacedTexts) -> list[Raw]:
    """The messages with each block where it was when its user message was the last one."""
    users = [position for position, message in enumerate(messages) if read_head(message).role == "user"]
    for one in texts.anchored:
        put_before_words(messages, users[one.message], one.encoded)
    return messages


def holds_result(message: Raw) -> bool:
    """Whether there are results of tools in a message: nothing may come between them and their calls."""
    content = read_head(message).content
    return bytes(content)[:1] == b"[" and any(is_result(part) for part in decode_parts(bytes(content)))


def is_result(part: Raw) -> bool:
    try:
        return _kind.decode(part).type == RESULT
    except (msgspec.MsgspecError, RecursionError):
        return False


def put_before_words(messages: list[Raw], position: int, text: bytes) -> None:
    """The text as a block before what the user says, behind the results of tools."""
    message = _object.decode(messages[position])
    raw = bytes(message.get("content") or b"null").strip()
    parts = [encode_text_part(raw[1:-1])] if raw[:1] == b'"' else [] if raw == b"null" else decode_parts(raw)
    results = next((at for at, part in enumerate(parts) if not is_result(part)), len(parts))
    message["content"] = Raw(_encode([*parts[:results], encode_text_part(text), *parts[results:]]))
    messages[position] = Raw(_encode(message))


def read_last_user_text(messages: Sequence[Raw]) -> str:
    """The text of the last user message that says something, its texts joined; "" if there is none."""
    position = find_last_spoken(messages)
    content = b"" if position is None else bytes(read_head(messages[position]).content)
    match content[:1]:
        case b'"':
            return str(msgspec.json.decode(content))
        case b"[":
            return "\n".join(text for part in _parts.decode(content) if (text := read_text(part)) is not None)
    return ""


def replace_user_text(messages: Sequence[Raw], text: str) -> list[Raw]:
    """The messages with `text` instead of the last user text; other blocks (images, results) stay."""
    position = find_last_spoken(messages)
    if position is None:
        return [*messages, Raw(_encode({"role": "user", "content": text}))]
    message = _object.decode(messages[position])
    content = message.get("content")
    parted = content is not None and bytes(content)[:1] == b"["
    message["content"] = Raw(_encode(replace_text(content, text) if parted and content is not None else text))
    return [*messages[:position], Raw(_encode(message)), *messages[position + 1 :]]
