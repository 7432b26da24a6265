"""Putting texts into messages without decoding what need not change."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.cache_marker import choose_marker
from gateway.conversation.dialects.raw_body import find_text_role
from gateway.domain.agent import Placement
from gateway.domain.injection import PlacedTexts
from gateway.domain.json_text import BLANK_LINE, quote_json
from gateway.errors import InvalidRequest

LEADING = ("system", "developer")
OPEN_PART = b'{"type":"text","text":"'

_encode = msgspec.json.Encoder().encode
_object = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])


class _Head(msgspec.Struct):
    role: str | None = None


_head = msgspec.json.Decoder(_Head)


def place(messages: Sequence[Raw], texts: PlacedTexts, placement: Placement) -> list[Raw]:
    """The messages with the texts in their places (CONTRACT §3.2)."""
    placed = list(messages)
    apart = texts.volatile and placement is not Placement.SYSTEM
    last_user = find_last_user_message(messages) if apart else None
    blocks = (texts.stable,) if last_user is not None else (texts.stable, texts.volatile)
    after = BLANK_LINE.join(filter(None, blocks))
    if texts.instructions or after:
        put_in_system(placed, texts.instructions, after)
    if last_user is not None:
        put = put_before if placement is Placement.TURN else put_at_head
        put(placed, last_user + len(placed) - len(messages), texts.volatile)
    return placed


class LeadingMessage(msgspec.Struct):
    """The last of the leading system or developer messages; at -1 if there is none."""

    position: int
    role: str


def find_leading_message(messages: Sequence[Raw]) -> LeadingMessage:
    last, role = -1, "system"
    for position, message in enumerate(messages):
        found = read_role(message)
        if found not in LEADING:
            break
        last, role = position, found
    return LeadingMessage(last, role)


def find_last_user_message(messages: Sequence[Raw]) -> int | None:
    for position in range(len(messages) - 1, -1, -1):
        if read_role(messages[position]) == "user":
            return position
    return None


def put_in_system(messages: list[Raw], before: bytes, after: bytes) -> None:
    position = find_leading_message(messages).position
    if position < 0:
        messages.insert(0, Raw(_encode({"role": "system", "content": quote_json(before, after)})))
        return
    message = _object.decode(messages[position])
    message["content"] = surround_content(message.get("content"), before, after)
    messages[position] = Raw(_encode(message))


def put_before(messages: list[Raw], position: int, text: bytes) -> None:
    """The text as a separate message, with the role of the conversation's leading message."""
    role = find_leading_message(messages).role
    messages.insert(position, Raw(_encode({"role": role, "content": quote_json(text)})))


def put_at_head(messages: list[Raw], position: int, text: bytes) -> None:
    """The text as a part at the start of the user's message."""
    message = _object.decode(messages[position])
    raw = bytes(message.get("content") or b"null").strip()
    parts = [encode_text_part(raw[1:-1])] if raw[:1] == b'"' else [] if raw == b"null" else decode_parts(raw)
    message["content"] = Raw(_encode([encode_text_part(text), *parts]))
    messages[position] = Raw(_encode(message))


def surround_content(content: Raw | None, before: bytes, after: bytes) -> Raw:
    """Content with a text before and after it: in one string, or as parts of their own."""
    raw = bytes(content).strip() if content is not None else b"null"
    if raw[:1] == b'"':
        return quote_json(before, raw[1:-1], after)
    if raw == b"null":
        return quote_json(before, after)
    parts = decode_parts(raw)
    head = [encode_text_part(before)] if before else []
    tail = [encode_text_part(after)] if after else []
    return Raw(_encode([*head, *parts, *tail]))


def decode_parts(raw: bytes) -> list[Raw]:
    try:
        return _array.decode(raw)
    except msgspec.ValidationError as fault:
        raise InvalidRequest("A message's content must be a string or an array of parts.", param="messages") from fault


def encode_text_part(text: bytes) -> Raw:
    return Raw(b'{"type":"text","text":"' + text + b'"}')


def read_role(message: Raw) -> str | None:
    """Its role; of a message that is nothing but a text, which may be long, only the ends are read."""
    role = find_text_role(message)
    if role is not None:
        return role
    try:
        return _head.decode(message).role
    except msgspec.MsgspecError as fault:
        raise InvalidRequest("A message's role must be a string.", param="messages") from fault


def place_anchored(messages: Sequence[Raw], texts: PlacedTexts, placement: Placement) -> list[Raw]:
    """The messages with each block where it was when its user message was the last one.

    What else the last user message has before it comes after its block: that is gone in the next request.
    """
    role = find_leading_message(messages).role
    users = [position for position, message in enumerate(messages) if read_role(message) == "user"]
    placed = list(messages)
    for one in sorted(texts.anchored, key=lambda block: -block.message):
        position = users[one.message]
        if placement is Placement.TURN:
            behind = bool(texts.volatile) and one.message == len(users) - 1
            placed.insert(position - behind, Raw(_encode({"role": role, "content": quote_json(one.encoded)})))
        else:
            put_at_head(placed, position, one.encoded)
    return placed


def add_cache_marker(fields: Mapping[str, Any], messages: Sequence[Raw], stable: bytes) -> list[Raw]:
    """The messages with a part that ends where the stable block ends, marked for Anthropic's prompt cache."""
    leading = find_leading_message(messages).position + 1
    before = [*messages[:leading], *(value for value in fields.values() if isinstance(value, Raw))]
    marked, marker = list(messages), choose_marker(fields, before, messages[leading:])
    if marker is None:
        return marked
    for position, message in enumerate(messages):
        if stable not in bytes(message):
            continue
        written = _object.decode(message)
        content = bytes(written["content"])
        parts = [Raw(OPEN_PART + content[1:-1] + b'"}')] if content[:1] == b'"' else decode_parts(content)
        written["content"] = Raw(_encode([piece for part in parts for piece in split_after(part, stable, marker)]))
        marked[position] = Raw(_encode(written))
        break
    return marked


def split_after(part: Raw, stable: bytes, marker: bytes) -> list[Raw]:
    """A text part cut after the stable block, the first piece marked; any other part as it is."""
    before, found, after = bytes(part).partition(stable)
    if not found:
        return [part]
    rest = after.removesuffix(b'"}').removeprefix(rb"\n\n")
    pieces = [Raw(before + stable + b'","cache_control":' + marker + b"}")]
    return [*pieces, Raw(OPEN_PART + rest + b'"}')] if rest else pieces


def replace_developer_role(messages: Sequence[Raw]) -> list[Raw]:
    """The messages with system instead of developer, for upstreams that do not support that role."""
    return [to_system_message(message) if read_role(message) == "developer" else message for message in messages]


def to_system_message(message: Raw) -> Raw:
    return Raw(_encode(_object.decode(message) | {"role": "system"}))
