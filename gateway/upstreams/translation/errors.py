"""Errors of an upstream in the words of another dialect."""

from typing import Any, Final

import msgspec

from gateway.domain.messages_error import build_messages_error, build_messages_error_event, find_messages_kind
from gateway.upstreams.translation.carried_fields import UNREADABLE, encode

NO_REASON: Final = "The upstream gave no reason."
# Anthropic's types that OpenAI has other words for; the others are the same or pass as they are.
CHAT_KINDS: Final = {"api_error": "server_error", "overloaded_error": "server_error", "timeout_error": "server_error"}
RATE_LIMITS: Final = frozenset({"rate_limit_error", "rate_limit_exceeded", "insufficient_quota", "tokens", "requests"})


def to_chat_error(body: bytes) -> bytes:
    """Anthropic's error body as OpenAI's; its own type is the code."""
    error = read_error(body)
    kind = str(error.get("type") or "server_error")
    code = read_code(error) or kind
    said = {"message": read_message(error), "type": CHAT_KINDS.get(kind, kind), "param": None, "code": code}
    return encode({"error": said})


def to_messages_error(body: bytes, status: int) -> bytes:
    """OpenAI's error body as Anthropic's."""
    error = read_error(body)
    code, param = (value if isinstance(value := error.get(name), str) else None for name in ("code", "param"))
    return build_messages_error(read_message(error), find_messages_kind(status), code=code, param=param)


def to_messages_error_event(body: bytes) -> bytes:
    """An error in the middle of a chat stream as Anthropic's event."""
    error = read_error(body)
    limited = error.get("type") in RATE_LIMITS or error.get("code") in RATE_LIMITS
    kind = "rate_limit_error" if limited else "api_error"
    return build_messages_error_event(build_messages_error(read_message(error), kind))


def read_error(body: bytes) -> dict[str, Any]:
    """The error object of a body, {} where there is none."""
    try:
        document = msgspec.json.decode(body)
    except UNREADABLE:
        return {}
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, dict) else {"message": error} if isinstance(error, str) else {}


def read_message(error: dict[str, Any]) -> str:
    message = error.get("message")
    return message if isinstance(message, str) and message else NO_REASON


def read_code(error: dict[str, Any]) -> str | None:
    """The stable name of the cause, where Anthropic gives one."""
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, dict) else None
    return code if isinstance(code, str) else None
