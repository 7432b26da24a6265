"""Replies that are made in this process rather than received over a connection."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway import sse
from gateway.domain.upstream import UpstreamReply

JSON_HEADERS = {"content-type": "application/json"}
EVENT_STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8"}

ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}


class MemoryReply(UpstreamReply):
    """A reply whose whole body is known; `read` returns it piece by piece."""

    def __init__(self, status: int, pieces: Iterable[bytes], headers: Mapping[str, str] = JSON_HEADERS) -> None:
        self.status = status
        self.headers = headers
        self._pieces = iter(pieces)

    async def read(self) -> bytes:
        return next(self._pieces, b"")

    async def read_all(self) -> bytes:
        return b"".join(self._pieces)

    async def close(self) -> None:
        self._pieces = iter(())


def build_json_reply(document: Any, status: int = 200, headers: Mapping[str, str] = JSON_HEADERS) -> MemoryReply:
    """One JSON document as a reply."""
    return MemoryReply(status, [msgspec.json.encode(document)], headers)


def build_error_reply(
    status: int,
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    headers: Mapping[str, str] = JSON_HEADERS,
) -> MemoryReply:
    """A failure as a provider reports it, in OpenAI's shape."""
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return build_json_reply(
        {"error": {"message": message, "type": kind, "param": param, "code": code}}, status, headers
    )


def encode_json_event(document: Any) -> bytes:
    """One server-sent event that carries a JSON document."""
    return sse.encode_event(msgspec.json.encode(document))


def find_param(fault: Exception) -> str | None:
    """The field that msgspec names at the end of a message: "… - at `$.messages[0].role`"."""
    place = re.search(r"at `\$\.?([^`]+)`$", str(fault))
    return place[1] if place else None
