"""Putting texts into messages without decoding what need not change.

Texts are joined as JSON string literals: the client's own characters keep their bytes.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.domain.agent import Placement
from gateway.domain.injection import PlacedTexts
from gateway.errors import InvalidRequest

BLANK_LINE = b"\\n\\n"  # inside a JSON string

_object = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])
_encode = msgspec.json.Encoder().encode


class _Head(msgspec.Struct):
    role: str | None = None


_head = msgspec.json.Decoder(_Head)

LEADING = ("system", "developer")


def inside(text: str) -> bytes:
    """A text as it stands between the quotes of a JSON string."""
    return _encode(text)[1:-1]


def literal(*pieces: bytes) -> Raw:
    """The pieces that say something as one JSON string, with blank lines between them."""
    return Raw(b'"' + BLANK_LINE.join(piece for piece in pieces if piece) + b'"')


def role_of(message: Raw) -> str | None:
    try:
        return _head.decode(message).role
    except msgspec.MsgspecError as fault:
        raise InvalidRequest("A message's role must be a string.", param="messages") from fault


def place(messages: Sequence[Raw], texts: PlacedTexts, placement: Placement) -> list[Raw]:
    """The messages with the texts in their places (CONTRACT §3.2)."""
    placed = list(messages)
    apart = texts.volatile and placement is not Placement.SYSTEM
    last_user = last_user_message(messages) if apart else None
    blocks = (texts.stable,) if last_user is not None else (texts.stable, texts.volatile)
    after = BLANK_LINE.join(piece for piece in blocks if piece)
    if texts.instructions or after:
        put_in_system(placed, texts.instructions, after)
    if last_user is not None:
        put = put_before if placement is Placement.TURN else put_at_head
        put(placed, last_user + len(placed) - len(messages), texts.volatile)
    return placed


def last_user_message(messages: Sequence[Raw]) -> int | None:
    for position in range(len(messages) - 1, -1, -1):
        if role_of(messages[position]) == "user":
            return position
    return None


def leading_role(messages: Sequence[Raw]) -> tuple[int, str]:
    """Position and role of the last of the leading system or developer messages; -1 if there is none."""
    last, role = -1, "system"
    for position, message in enumerate(messages):
        found = role_of(message)
        if found not in LEADING:
            break
        last, role = position, found
    return last, role


def put_in_system(messages: list[Raw], before: bytes, after: bytes) -> None:
    position, _ = leading_role(messages)
    if position < 0:
        messages.insert(0, Raw(_encode({"role": "system", "content": literal(before, after)})))
        return
    message = _object.decode(messages[position])
    message["content"] = around(message.get("content"), before, after)
    messages[position] = Raw(_encode(message))


def around(content: Raw | None, before: bytes, after: bytes) -> Raw:
    """Content with a text before and after it: in one string, or as parts of their own."""
    raw = bytes(content).strip() if content is not None else b"null"
    if raw[:1] == b'"':
        return literal(before, raw[1:-1], after)
    if raw == b"null":
        return literal(before, after)
    parts = parts_of(raw)
    head = [text_part(before)] if before else []
    tail = [text_part(after)] if after else []
    return Raw(_encode([*head, *parts, *tail]))


def parts_of(raw: bytes) -> list[Raw]:
    try:
        return _array.decode(raw)
    except msgspec.ValidationError as fault:
        raise InvalidRequest("A message's content must be a string or an array of parts.", param="messages") from fault


def text_part(text: bytes) -> Raw:
    return Raw(b'{"type":"text","text":"' + text + b'"}')


def put_before(messages: list[Raw], position: int, text: bytes) -> None:
    """The text as a message of its own, in the role that the conversation's leading message has."""
    _, role = leading_role(messages)
    messages.insert(position, Raw(_encode({"role": role, "content": literal(text)})))


def put_at_head(messages: list[Raw], position: int, text: bytes) -> None:
    """The text as a part at the head of the user's message."""
    message = _object.decode(messages[position])
    raw = bytes(message.get("content") or b"null").strip()
    parts = [text_part(raw[1:-1])] if raw[:1] == b'"' else [] if raw == b"null" else parts_of(raw)
    message["content"] = Raw(_encode([text_part(text), *parts]))
    messages[position] = Raw(_encode(message))
