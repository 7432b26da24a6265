"""A client that calls the chat endpoint itself, so that nothing of an HTTP server is traced."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

PATIENCE = 30.0  # seconds


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class WalkRequest:
    """One chat request as the endpoint sees it, whose reply is kept; `headers` is handed out as it is."""

    method = "POST"
    target = SimpleNamespace(query="", model=None)  # a checkout may have no type for it
    head = None  # so that its headers are walked

    def __init__(self, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.headers = headers
        self.reply = Reply()
        self._body = body

    async def read_body(self, head: Any, max_bytes: int) -> bytes:
        return self._body

    async def respond(self, status: int, headers: Any, body: bytes) -> None:
        self.start_stream(status, headers)
        self.end(body)

    def start_stream(self, status: int, headers: Any) -> None:
        self.reply.status = status
        self.reply.headers = {name.decode().lower(): value.decode() for name, value in headers}

    def write(self, data: bytes) -> bool:
        self.reply.body += data
        return True

    async def drain(self) -> None:
        """There is always room."""

    def end(self, data: bytes) -> None:
        self.write(data)


async def post(endpoint: Any, headers: list[tuple[bytes, bytes]], body: bytes) -> Reply:
    """One chat request and its reply."""
    request = WalkRequest(headers, body)
    await asyncio.wait_for(endpoint.serve(request), PATIENCE)
    return request.reply
