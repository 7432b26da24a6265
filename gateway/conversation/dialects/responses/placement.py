"""Putting texts into instructions and items without decoding what need not change."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.responses.items import decode_items, decode_object, read_item
from gateway.conversation.dialects.responses.request import find_last_user_message, is_from_user
from gateway.conversation.history import TEXT_PARTS
from gateway.domain.agent import Placement
from gateway.domain.chat import OutgoingBody
from gateway.domain.injection import PlacedTexts
from gateway.domain.json_text import BLANK_LINE, escape_json, quote_json
from gateway.errors import InvalidRequest

_encode = msgspec.json.Encoder().encode


def place(outgoing: OutgoingBody, texts: PlacedTexts, placement: Placement) -> None:
    """The stable block goes into the instructions, the volatile one too or before the last user message."""
    items = outgoing.messages  # the same, unless something is put among them
    if not (texts.volatile or texts.anchored or "prompt" in outgoing.fields):
        return put_in_instructions(outgoing, items, texts.instructions, texts.stable)
    apart = texts.volatile and placement is not Placement.SYSTEM
    last_user = find_last_user_message(items) if apart else None
    blocks = (texts.stable,) if last_user is not None else (texts.stable, texts.volatile)
    after = BLANK_LINE.join(filter(None, blocks))
    if last_user is not None or texts.anchored or "prompt" in outgoing.fields:
        items = items.copy()
    # The block that stays with the last user message stands before what is gone in the next request.
    if last_user is not None and placement is not Placement.TURN:
        put_at_head(items, last_user, texts.volatile)
    if texts.anchored:
        place_anchored(items, texts, placement)
    if last_user is not None and placement is Placement.TURN:
        position = last_user + len(items) - len(outgoing.messages)
        items.insert(position, write_developer_item(quote_json(texts.volatile)))
    if texts.instructions or after:
        put_in_instructions(outgoing, items, texts.instructions, after)
    outgoing.messages = items


def put_in_instructions(outgoing: OutgoingBody, items: list[Raw], before: bytes, after: bytes) -> None:
    """Around the client's own; a stored prompt has instructions of its own, which a field would replace."""
    given = outgoing.fields.get("instructions")
    raw = b"null" if given is None else bytes(given).strip()
    if raw[:1] == b'"':
        outgoing.fields["instructions"] = quote_json(before, raw[1:-1], after)
    elif raw != b"null":
        raise InvalidRequest("`instructions` must be a string.", param="instructions")
    elif "prompt" in outgoing.fields:
        items.insert(0, write_developer_item(quote_json(before, after)))
    else:
        outgoing.fields["instructions"] = quote_json(before, after)


def place_anchored(items: list[Raw], texts: PlacedTexts, placement: Placement) -> None:
    """Each block where it was when its user message was the last one."""
    users = [position for position, item in enumerate(items) if is_from_user(item)]
    for one in sorted(texts.anchored, key=lambda block: -block.message):
        if placement is Placement.TURN:
            items.insert(users[one.message], write_developer_item(quote_json(one.encoded)))
        else:
            put_at_head(items, users[one.message], one.encoded)


def write_developer_item(content: Raw) -> Raw:
    return Raw(b'{"type":"message","role":"developer","content":' + bytes(content) + b"}")


def put_at_head(items: list[Raw], position: int, text: bytes) -> None:
    """The text as a part at the start of the user's message."""
    message = decode_object(items[position])
    raw = bytes(message.get("content") or b"null").strip()
    parts = [write_text_part(raw[1:-1])] if raw[:1] == b'"' else [] if raw == b"null" else decode_parts(raw)
    message["content"] = Raw(_encode([write_text_part(text), *parts]))
    items[position] = Raw(_encode(message))


def write_text_part(text: bytes) -> Raw:
    return Raw(b'{"type":"input_text","text":"' + text + b'"}')


def decode_parts(raw: bytes) -> list[Raw]:
    try:
        return decode_items(raw)
    except msgspec.ValidationError as fault:
        raise InvalidRequest("A message's content must be a string or an array of parts.", param="input") from fault


def replace_user_text(messages: Sequence[Raw], text: str) -> list[Raw]:
    """The items with `text` instead of the last user text; other parts (images, files) stay."""
    position = find_last_user_message(messages)
    if position is None:
        return [*messages, Raw(_encode({"role": "user", "content": text}))]
    message = decode_object(messages[position])
    content = message.get("content")
    if content is not None and bytes(content)[:1] == b"[":
        message["content"] = Raw(_encode(replace_text(decode_parts(content), text)))
    else:
        message["content"] = Raw(_encode(text))
    return [*messages[:position], Raw(_encode(message)), *messages[position + 1 :]]


def replace_text(parts: list[Raw], text: str) -> list[Raw]:
    """The parts with `text` in the place of the first text."""
    textual = [read_item(part).type in TEXT_PARTS for part in parts]
    first = textual.index(True) if True in textual else 0
    kept = [part for part, replaced in zip(parts, textual, strict=True) if not replaced]
    return [*kept[:first], write_text_part(escape_json(text)), *kept[first:]]


def replace_developer_role(items: Sequence[Raw]) -> list[Raw]:
    """The items with system instead of developer, for upstreams that do not support that role."""
    return [
        Raw(_encode(decode_object(item) | {"role": "system"})) if read_item(item).role == "developer" else item
        for item in items
    ]
