"""A client that calls the ASGI app itself, so that nothing of an HTTP server is traced."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

App = Callable[[Any, Any, Any], Awaitable[None]]
PATH = "/v1/chat/completions"
PATIENCE = 30.0  # seconds


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


async def post(app: App, headers: list[tuple[bytes, bytes]], body: bytes) -> Reply:
    """One chat request; `headers` is put into the ASGI scope as it is."""
    reply = Reply()
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()  # the client stays until it has its answer
        return waiting.pop()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            reply.body += message.get("body", b"")

    await asyncio.wait_for(app(build_scope(headers), receive, send), PATIENCE)
    return reply


def build_scope(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8080),
        "state": {},
    }
