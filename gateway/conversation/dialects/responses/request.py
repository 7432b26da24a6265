"""The bytes of a responses body become a ChatRequest, or a clear 400."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.chat import request as chat_requests
from gateway.conversation.dialects.raw_body import (
    SPEAKERS,
    LargeBodySplitter,
    decode_fields,
    decode_scalar,
    skip_texts,
)
from gateway.conversation.dialects.responses.items import (
    MESSAGE,
    NULL,
    OBJECT,
    UNREADABLE_ITEM,
    decode_items,
    decode_object,
    read_item,
)
from gateway.conversation.history import TEXT_PARTS
from gateway.domain.chat import SPOKEN_STYLE, ChatRequest, MessageStyle
from gateway.domain.dialect import RequestDialect
from gateway.domain.search import Question
from gateway.errors import InvalidRequest

LOOKED_AT = {"previous_response_id": str, "store": bool, "background": bool, "text": dict, "max_output_tokens": int}
REPLACES_INPUT = ("previous_response_id", "conversation", "prompt")  # one of them is enough without any input
KNOWN_NAMES = (
    "model", "instructions", "stream", "store", "previous_response_id", "conversation", "prompt", "background",
    "include", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls", "prompt_cache_key",
    "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "stream_options", "temperature", "text",
    "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user", "context_management", "context",
)  # fmt: skip
OUTPUT_LIMIT = {"max_tokens": "max_output_tokens"}  # what defaults are called here
# Fields that are checked, because upstreams keep what they name for everybody who shares an account.
CHECKED = tuple(f'"{name}"'.encode() for name in ("previous_response_id", "conversation", "background", "input"))
REFERENCE = b"item_reference"
SHORTEST_REPEATED = len(',"input":0')  # bytes that a field which is checked takes at least
FIELD_BYTES, INPUT_BYTES = len('"":,'), len('{"input":}')  # around names and values that are written without spaces
ESCAPED = re.compile(rb"\\u00(?:5[fF]|6[1-9a-fA-F]|7[0-9aA])")  # a letter of such names

_encode = msgspec.json.Encoder().encode


class SplitResponsesBody(msgspec.Struct):
    """A body as its items, one by one, and its other fields."""

    fields: dict[str, Raw]
    entries: list[Raw]
    may_repeat: bool  # it is long enough to have a field twice that is checked


class _StyledItem(msgspec.Struct, gc=False):
    type: str = MESSAGE
    role: str = ""


class _PlainMessage(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A message and nothing else: without an id, it names no other item, whatever its fields say how often."""

    role: Literal["system", "developer", "user", "assistant"]  # SPEAKERS
    content: Raw = NULL
    type: Literal["message"] = MESSAGE


LARGE_BODIES = LargeBodySplitter("input", KNOWN_NAMES)
_read_style: Callable[[bytes], _StyledItem] = msgspec.json.Decoder(_StyledItem).decode
_read_plain: Callable[[bytes], _PlainMessage] = msgspec.json.Decoder(_PlainMessage).decode


def decode_responses(body: bytes, dialect: RequestDialect) -> ChatRequest:
    """Check only what the gateway needs; everything else is left to the upstream."""
    split = split_body(body)
    if split.may_repeat or not are_plain(split.entries):
        if may_repeat(body):
            body = settle_repeated(body)
            split = split_body(body)
        style = read_style(split.entries)
    else:
        style = SPOKEN_STYLE
    fields, items = split.fields, split.entries
    previous = None
    if not LOOKED_AT.keys().isdisjoint(fields):
        told = {name: decode_scalar(fields, name, kind) for name, kind in LOOKED_AT.items() if name in fields}
        if told.get("background"):
            raise InvalidRequest("Background responses are not supported; leave out `background`.", param="background")
        previous = told.get("previous_response_id")
    model = decode_scalar(fields, "model", str)
    stream = "stream" in fields and bool(decode_scalar(fields, "stream", bool))
    return ChatRequest(dialect, body, fields, items, model or None, stream, style, previous or None)


def may_repeat(body: bytes) -> bool:
    """Whether a field that is checked may be there twice, or an item that names another one; False is certain."""
    return any(body.count(name) > 1 for name in CHECKED) or REFERENCE in body or ESCAPED.search(body) is not None


def settle_repeated(body: bytes) -> bytes:
    """The body with every field, of items too, once: an upstream might take another one than the last, which counts."""
    fields = decode_fields(body)
    given = fields.get("input")
    if given is not None and bytes(memoryview(given)[:1]) == b"[":
        whole = ((item, memoryview(item)[:1] == OBJECT) for item in decode_items(given))
        fields["input"] = Raw(
            _encode([Raw(_encode(decode_object(one))) if is_object else one for one, is_object in whole])
        )
    return _encode(fields)


def split_body(body: bytes) -> SplitResponsesBody:
    """The fields and the items; a string is what the user says."""
    if (large := LARGE_BODIES.split(body)) is not None:
        items = large.entries
        return SplitResponsesBody(large.fields, items, has_room(body, large.fields, items, len(items) + 1))
    fields = decode_fields(body)
    if (given := fields.pop("input", None)) is None:
        return SplitResponsesBody(fields, [], True)
    room, start = has_room(body, fields, (given,)), bytes(memoryview(given)[:1])
    if start == b"n":
        return SplitResponsesBody(fields, [], room)
    if start == b'"':
        return SplitResponsesBody(fields, [Raw(b'{"role":"user","content":' + bytes(given) + b"}")], room)
    try:
        return SplitResponsesBody(fields, decode_items(given), room)
    except msgspec.ValidationError as fault:
        raise InvalidRequest("`input` must be a string or an array of items.", param="input") from fault


def has_room(body: bytes, fields: Mapping[str, Raw], given: Sequence[Raw], marks: int = 0) -> bool:
    """Whether a body is so much longer than its fields and its input that one of them may be there twice.

    The input is given in parts, with so many bytes of brackets and commas around them.
    """
    known = sum(map(len, chain(given, fields, fields.values())), INPUT_BYTES + marks + FIELD_BYTES * len(fields))
    return len(body) - known >= SHORTEST_REPEATED


def are_plain(items: Sequence[Raw]) -> bool:
    """Whether all items are messages without anything that could make them references.

    Most of a long conversation are texts, which are not read a second time.
    """
    if not (others := skip_texts(items)):
        return True
    try:
        list(map(_read_plain, others))
    except UNREADABLE_ITEM:
        return False
    return True


def read_style(items: Sequence[Raw]) -> MessageStyle:
    """Whether all items are plain messages; raises InvalidRequest if one is not an object.

    Each is read, since one that begins like a message may still be a reference to somebody else's item.
    """
    try:
        styled = list(map(_read_style, items))
    except UNREADABLE_ITEM:
        for position, item in enumerate(items):
            if memoryview(item)[:1] != OBJECT:
                raise InvalidRequest("Every item must be an object.", param=f"input[{position}]") from None
        return MessageStyle.UNUSUAL
    spoken = all(one.type == MESSAGE and one.role in SPEAKERS for one in styled)
    return MessageStyle.SPOKEN if spoken else MessageStyle.UNUSUAL


def check_messages(request: ChatRequest) -> None:
    """Refuse what upstreams would refuse, so that nothing is placed where no conversation is."""
    if not request.messages and not any(request.has(name) for name in REPLACES_INPUT):
        raise InvalidRequest("A request needs an `input`, or continues an earlier response.", param="input")
    if request.style is SPOKEN_STYLE:
        return
    for position, item in enumerate(request.messages):
        try:
            read_item(item)
        except UNREADABLE_ITEM as fault:
            raise InvalidRequest("An item's type, role and ids must be strings.", param=f"input[{position}]") from fault


def may_answer_calls(request: ChatRequest) -> bool:
    """Whether results of tools may be among the items; False is certain."""
    if request.style is SPOKEN_STYLE:
        return False
    return b'_output"' in request.raw or b'"mcp_approval_response"' in request.raw


def wants_json(request: ChatRequest) -> bool:
    """Whether the answer has to be one JSON document."""
    text = request.get("text") if "text" in request.fields else None
    wanted = text.get("format") if isinstance(text, dict) else None
    return isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema")


def find_missing_defaults(request: ChatRequest, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that the request does not set."""
    named = {OUTPUT_LIMIT.get(name, name): value for name, value in defaults.items()}
    return {name: value for name, value in named.items() if not request.has(name)}


class _UserItem(msgspec.Struct):
    role: str = ""
    type: str = MESSAGE
    content: Any = None


_read_user: Callable[[bytes], _UserItem] = msgspec.json.Decoder(_UserItem).decode


def find_question(messages: Sequence[Raw]) -> Question | None:
    """The last user text with the ones before it; None if the user has said nothing."""
    return chat_requests.find_question(messages, read_user_text)


def read_user_texts(messages: Sequence[Raw]) -> list[str]:
    """The texts of all user messages, oldest first; "" for one that has none."""
    return [read_user_text(item) for item in messages if is_from_user(item)]


def is_from_user(item: Raw) -> bool:
    try:
        read = read_item(item)
    except UNREADABLE_ITEM:
        return False  # its shape is the upstream's business
    return read.role == "user" and read.type == MESSAGE


def find_last_user_message(messages: Sequence[Raw]) -> int | None:
    return next((at for at in range(len(messages) - 1, -1, -1) if is_from_user(messages[at])), None)


def read_user_text(item: Raw) -> str:
    """The text of a user's message; "" for everything else."""
    try:
        read = _read_user(item)
    except UNREADABLE_ITEM:
        return ""  # its shape is the upstream's business
    return join_parts(read.content).strip() if read.role == "user" and read.type == MESSAGE else ""


def join_parts(content: Any) -> str:
    """A content's text: itself, or its text parts, a line each."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in TEXT_PARTS)
    return "\n".join(text for text in texts if isinstance(text, str))


def read_last_user_text(messages: Sequence[Raw]) -> str:
    """The text of the last user message; "" if there is none."""
    position = find_last_user_message(messages)
    return "" if position is None else join_parts(_read_user(messages[position]).content)
