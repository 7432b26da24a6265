"""The bytes of a chat body become a ChatRequest, or a clear 400."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.raw_body import (
    SPOKEN,
    LargeBodySplitter,
    SplitBody,
    decode_fields,
    decode_scalar,
    list_openings,
)
from gateway.domain.chat import ChatRequest, MessageStyle
from gateway.domain.dialect import RequestDialect
from gateway.domain.search import Question
from gateway.errors import InvalidRequest

_messages = msgspec.json.Decoder(list[Raw])

LOOKED_AT = {"n": int, "stream_options": dict, "response_format": dict}  # fields that later steps read
OBJECT = b"{"
ANSWERING = (b'{"role":"tool"', b'{"role": "tool"')
KNOWN_NAMES = (
    "model", "stream", "temperature", "top_p", "n", "stop", "max_tokens", "max_completion_tokens", "tools",
    "tool_choice", "parallel_tool_calls", "response_format", "stream_options", "seed", "user", "metadata", "store",
    "reasoning_effort", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "modalities",
    "audio", "prediction", "service_tier", "functions", "function_call", "safety_identifier", "prompt_cache_key",
    "verbosity", "web_search_options", "context",
)  # fmt: skip

LARGE_BODIES = LargeBodySplitter("messages", KNOWN_NAMES)


class _RoleField(msgspec.Struct):
    role: str | None = None


_role = msgspec.json.Decoder(_RoleField)


@lru_cache(maxsize=1024)
def read_style(opening: bytes) -> MessageStyle:
    """The style of a message that begins like this; there are few beginnings, however long a history is."""
    if opening.startswith(SPOKEN):
        return MessageStyle.SPOKEN
    if opening.startswith(ANSWERING):
        return MessageStyle.ANSWERING
    return MessageStyle.UNUSUAL if opening.startswith(OBJECT) else MessageStyle.INVALID


def decode_chat(body: bytes, dialect: RequestDialect) -> ChatRequest:
    """Check only what the gateway needs; everything else is left to the upstream."""
    split = LARGE_BODIES.split(body) or split_body(body)
    fields, messages = split.fields, split.entries
    style = max(map(read_style, list_openings(messages)), default=MessageStyle.SPOKEN)
    if style is MessageStyle.INVALID:
        position = next(at for at, message in enumerate(messages) if memoryview(message)[:1] != OBJECT)
        raise InvalidRequest("Every message must be an object.", param=f"messages[{position}]")
    model = decode_scalar(fields, "model", str)
    if not LOOKED_AT.keys().isdisjoint(fields):
        for name, kind in LOOKED_AT.items():
            decode_scalar(fields, name, kind)
    stream = "stream" in fields and bool(decode_scalar(fields, "stream", bool))
    return ChatRequest(dialect, body, fields, messages, model or None, stream, style)


def split_body(body: bytes) -> SplitBody:
    """In two passes: the fields, then the messages."""
    fields = decode_fields(body)
    if "messages" not in fields:
        raise InvalidRequest("A chat request needs `messages`.", param="messages")
    try:
        return SplitBody(fields, _messages.decode(fields.pop("messages")))
    except msgspec.ValidationError as fault:
        raise InvalidRequest("`messages` must be an array.", param="messages") from fault


def check_messages(request: ChatRequest) -> None:
    """Refuse what upstreams would refuse, so that nothing is placed where no conversation is."""
    if not request.messages:
        raise InvalidRequest("`messages` must not be empty.", param="messages")
    if request.style <= MessageStyle.ANSWERING:
        return
    for position, message in enumerate(request.messages):
        try:
            role = _role.decode(message).role
        except msgspec.MsgspecError as fault:
            raise InvalidRequest("A message's role must be a string.", param=f"messages[{position}].role") from fault
        if not role:
            raise InvalidRequest("Every message needs a `role`.", param=f"messages[{position}].role")


EARLIER = 3  # user texts that may help to understand a short follow-up


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None


_message = msgspec.json.Decoder(_Message)


def read_user_texts(messages: Sequence[Raw]) -> list[str]:
    """The texts of all user messages, oldest first; "" for one that has none."""
    return [read_user_text(message) for message in messages if is_from_user(message)]


def is_from_user(message: Raw) -> bool:
    try:
        return _role.decode(message).role == "user"
    except (msgspec.MsgspecError, RecursionError):
        return False  # its shape is the upstream's business


def read_user_text(message: Raw) -> str:
    """The text of a user's message; "" for everything else."""
    try:
        read = _message.decode(message)
    except (msgspec.MsgspecError, RecursionError):
        return ""  # its shape is the upstream's business
    if read.role != "user":
        return ""
    if isinstance(read.content, str):
        return read.content.strip()
    parts = read.content if isinstance(read.content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def find_question(messages: Sequence[Raw], read_text: Callable[[Raw], str] = read_user_text) -> Question | None:
    """The last user text with the ones before it; None if the user has said nothing."""
    texts: list[str] = []
    for message in reversed(messages):
        text = read_text(message)
        if text:
            texts.append(text)
        if len(texts) > EARLIER:
            break
    return Question(texts[0], tuple(texts[1:])) if texts else None


def may_answer_calls(request: ChatRequest) -> bool:
    """Whether results of tools may be among the messages; False is certain unless one of them has two roles."""
    return request.style is not MessageStyle.SPOKEN and b'"tool_calls"' in request.raw


def wants_usage(request: ChatRequest) -> bool:
    """Whether a stream should end with its usage."""
    options = request.get("stream_options")
    return request.stream and isinstance(options, dict) and options.get("include_usage") is True


def wants_json(request: ChatRequest) -> bool:
    """Whether the answer has to be one JSON document."""
    wanted = request.get("response_format")
    return isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema")


def find_missing_defaults(request: ChatRequest, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that the request does not set."""
    missing = {name: value for name, value in defaults.items() if not request.has(name)}
    if "max_tokens" in missing and request.has("max_completion_tokens"):
        del missing["max_tokens"]
    return missing
