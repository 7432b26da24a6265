"""Replies that are made in this process rather than received over a connection."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}
DONE = b"data: [DONE]\n\n"

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}


class MemoryReply:
    """A reply whose whole body is known; `read` hands it out piece by piece."""

    def __init__(self, status: int, pieces: Iterable[bytes], headers: Mapping[str, str] = JSON) -> None:
        self.status = status
        self.headers = headers
        self._pieces = iter(pieces)

    async def read(self) -> bytes:
        return next(self._pieces, b"")

    async def read_all(self) -> bytes:
        return b"".join(self._pieces)

    async def close(self) -> None:
        self._pieces = iter(())


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] = JSON) -> MemoryReply:
    """One JSON document as a reply."""
    return MemoryReply(status, [msgspec.json.encode(document)], headers)


def error_reply(
    status: int, message: str, *, code: str | None = None, param: str | None = None, headers: Mapping[str, str] = JSON
) -> MemoryReply:
    """A failure as a provider reports it, in OpenAI's shape."""
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return json_reply({"error": {"message": message, "type": kind, "param": param, "code": code}}, status, headers)


def event(document: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def param_of(fault: Exception) -> str | None:
    """The field that msgspec names at the end of a fault: "… - at `$.messages[0].role`"."""
    place = re.search(r"at `\$\.?([^`]+)`$", str(fault))
    return place[1] if place else None
