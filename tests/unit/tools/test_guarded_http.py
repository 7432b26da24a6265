"""Replies of MCP servers: one that never stops talking takes little of the event loop."""

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.tools.guarded_http import BURST, PER_SECOND, BoundedStream

NOTIFICATION = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'


class Talker:
    """A body that never ends."""

    def __init__(self, piece: bytes) -> None:
        self.piece = piece

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)
            yield self.piece


def open_stream(piece: bytes) -> BoundedStream:
    response: Any = SimpleNamespace(status=200, headers={"Content-Type": "text/event-stream"}, content=Talker(piece))
    session: Any = None
    return BoundedStream(session, response, lambda: None)


@pytest.mark.parametrize(
    ("piece", "most"),
    [(NOTIFICATION * 900, 1.0), (b":\n" * 900, 0.05), (b"data: " + b"x" * 400_000 + b"\n\n", 11.0)],
    ids=["notifications", "comments", "long messages"],
)
async def test_a_server_that_never_stops_talking_is_slowed_down(piece: bytes, most: float) -> None:
    began, lines = time.monotonic(), 0
    try:
        async with asyncio.timeout(0.4):
            async for line in open_stream(piece):
                lines += bool(line.strip())
    except TimeoutError:
        pass
    elapsed = time.monotonic() - began
    assert lines >= BURST / (2 * most)
    assert lines <= (BURST + PER_SECOND * elapsed) / most + 1


async def test_a_usual_reply_does_not_wait() -> None:
    stream = open_stream(NOTIFICATION)
    lines = aiter(stream)
    began = time.monotonic()
    async with asyncio.timeout(30):
        for _ in range(150):
            await anext(lines)
    assert time.monotonic() - began < 150 / PER_SECOND - 0.2
