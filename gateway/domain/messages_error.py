"""Errors in Anthropic's format."""

from typing import Any, Final

import msgspec

KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def find_messages_kind(status: int) -> str:
    """Anthropic's word for a status."""
    return KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")


def build_messages_error(message: str, kind: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """`{"type": "error", "error": {"type", "message", "details"}}`; `details` names the cause and the field."""
    details = {name: value for name, value in (("error_code", code), ("param", param)) if value is not None}
    error: dict[str, Any] = {"type": kind, "message": message}
    return msgspec.json.encode({"type": "error", "error": error | ({"details": details} if details else {})})


def build_messages_error_event(error: bytes) -> bytes:
    """An error as the last event of a stream."""
    return b"event: error\ndata: " + error + b"\n\n"
