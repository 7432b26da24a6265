"""The bytes of a Messages body become a ChatRequest, or a clear 400."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.raw_body import (
    UNREADABLE,
    LargeBodySplitter,
    SplitBody,
    decode_fields,
    decode_scalar,
    list_openings,
)
from gateway.domain.chat import ChatRequest, MessageStyle
from gateway.domain.dialect import RequestDialect
from gateway.errors import InvalidRequest, ThreadUnsupported

LOOKED_AT = {"output_config": dict, "output_format": dict, "tool_choice": dict}  # fields that later steps read
JSON_FIELDS = frozenset({"output_config", "output_format"})
OBJECT = b"{"
TEXT, RESULT = "text", "tool_result"
KNOWN_NAMES = (
    "model", "max_tokens", "system", "stream", "temperature", "top_p", "top_k", "stop_sequences", "tools",
    "tool_choice", "metadata", "thinking", "output_config", "output_format", "service_tier", "cache_control",
    "container", "mcp_servers", "context_management", "inference_geo", "speed", "context",
)  # fmt: skip
# How messages begin whose content is a text: there are no results of tools in them, and no markers.
SPOKEN = tuple(
    f'{{"role":{space}"{role}",{space}"content":{space}"'.encode()
    for role in ("user", "assistant", "system")
    for space in ("", " ")
)
OPENING_BYTES = max(map(len, SPOKEN))

LARGE_BODIES = LargeBodySplitter("messages", KNOWN_NAMES)

_messages = msgspec.json.Decoder(list[Raw])


class MessageHead(msgspec.Struct):
    """A message whose content is still raw."""

    role: str | None = None
    content: Raw = Raw(b"null")


class _SpeakerRole(msgspec.Struct, gc=False):
    role: str = ""


class _SpokenBlock(msgspec.Struct):
    type: str | None = None
    text: str | None = None


decode_head = msgspec.json.Decoder(MessageHead).decode
_decode_role = msgspec.json.Decoder(_SpeakerRole).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_blocks = msgspec.json.Decoder(list[_SpokenBlock]).decode


def decode_messages(body: bytes, dialect: RequestDialect) -> ChatRequest:
    """Check only what the gateway needs; everything else is left to the upstream."""
    split = LARGE_BODIES.split(body) or split_body(body)
    fields, messages = split.fields, split.entries
    style = read_style(messages)
    model, stream = decode_scalar(fields, "model", str), bool(decode_scalar(fields, "stream", bool))
    if not LOOKED_AT.keys().isdisjoint(fields):
        for name, kind in LOOKED_AT.items():
            decode_scalar(fields, name, kind)
    return ChatRequest(dialect, body, fields, messages, model or None, stream, style)


def split_body(body: bytes) -> SplitBody:
    """In two passes: the fields, then the messages."""
    fields = decode_fields(body)
    if "messages" not in fields:
        raise InvalidRequest("A request needs `messages`.", param="messages")
    try:
        return SplitBody(fields, _messages.decode(fields.pop("messages")))
    except msgspec.ValidationError as fault:
        raise InvalidRequest("`messages` must be an array.", param="messages") from fault


@lru_cache(maxsize=1024)
def read_opening(opening: bytes) -> MessageStyle:
    """The style of a message that begins like this, as far as that tells it."""
    if opening.startswith(SPOKEN):
        return MessageStyle.SPOKEN
    return MessageStyle.UNUSUAL if opening.startswith(OBJECT) else MessageStyle.INVALID


def are_spoken(messages: Sequence[Raw]) -> bool:
    """Whether the contents of all messages are texts."""
    return not any(map(read_opening, list_openings(messages, OPENING_BYTES)))


def read_style(messages: Sequence[Raw]) -> MessageStyle:
    """Whether all messages are texts, or at least have roles; raises InvalidRequest if one is not an object."""
    style = max(map(read_opening, list_openings(messages, OPENING_BYTES)), default=MessageStyle.SPOKEN)
    if style is MessageStyle.SPOKEN:
        return style
    if style is MessageStyle.INVALID:
        position = next(at for at, message in enumerate(messages) if memoryview(message)[:1] != OBJECT)
        raise InvalidRequest("Every message must be an object.", param=f"messages[{position}]")
    try:
        named = all(_decode_role(message).role for message in messages)
    except UNREADABLE:
        return MessageStyle.UNUSUAL
    return MessageStyle.ANSWERING if named else MessageStyle.UNUSUAL


def check_messages(request: ChatRequest) -> None:
    """Refuse what upstreams would refuse, so that nothing is placed where no conversation is."""
    if request.has("thread"):
        raise ThreadUnsupported(
            "`thread` cannot be used where context is injected, since the upstream would keep a conversation that the "
            "gateway changes. Send all messages.",
            param="thread",
        )
    if not request.messages:
        raise InvalidRequest("`messages` must not be empty.", param="messages")
    if request.style <= MessageStyle.ANSWERING:
        return
    for position, message in enumerate(request.messages):
        try:
            role = decode_head(message).role
        except msgspec.MsgspecError as fault:
            raise InvalidRequest("A message's role must be a string.", param=f"messages[{position}].role") from fault
        if not role:
            raise InvalidRequest("Every message needs a `role`.", param=f"messages[{position}].role")


def find_last_spoken(messages: Sequence[Raw]) -> int | None:
    """The position of the last message in which the user says something: results of tools alone are no words."""
    for position in range(len(messages) - 1, -1, -1):
        head = read_head(messages[position])
        if head.role == "user" and not holds_results_only(head.content):
            return position
    return None


def holds_results_only(content: Raw) -> bool:
    if bytes(content)[:1] != b"[":
        return False
    try:
        blocks = _decode_blocks(content)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return bool(blocks) and all(block.type == RESULT for block in blocks)


def read_head(message: Raw) -> MessageHead:
    try:
        return decode_head(message)
    except (msgspec.MsgspecError, RecursionError):
        return MessageHead()  # its shape is the upstream's business


def may_answer_calls(request: ChatRequest) -> bool:
    """Whether results of tools may be among the messages; False is certain."""
    return request.style is not MessageStyle.SPOKEN and b'"tool_result"' in request.raw


def wants_json(request: ChatRequest) -> bool:
    """Whether the answer has to be one JSON document."""
    if JSON_FIELDS.isdisjoint(request.fields):
        return False
    config = request.get("output_config")
    wanted = config.get("format") if isinstance(config, dict) else None
    wanted = wanted or request.get("output_format")  # its name while it was a beta, which clients still send
    return isinstance(wanted, dict) and wanted.get("type") == "json_schema"


def find_missing_defaults(request: ChatRequest, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that the request does not set."""
    return {name: value for name, value in defaults.items() if not request.has(name)}
