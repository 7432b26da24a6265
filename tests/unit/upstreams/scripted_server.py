"""A server that is scripted byte by byte, and the client that talks to it."""

import asyncio
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from gateway.domain.upstream import UpstreamRequest
from gateway.settings import LimitSettings, TimeoutSettings, UpstreamSettings
from gateway.upstreams.openai import OpenAIUpstream

Act = Callable[["Peer"], Awaitable[None]]
CHAT = UpstreamRequest("/chat/completions", b'{"model":"m"}')
SHORT = TimeoutSettings(connect=0.5, first_byte=0.3, idle=0.3)


class Peer:
    """One connection as the server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.reader, self.writer, self.number = reader, writer, number

    async def request(self) -> tuple[str, bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"content-length: (\d+)", head)
        return head, await self.reader.readexactly(int(length[1])) if length else b""

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def half_close(self) -> None:
        """Send FIN, and go on listening."""
        self.writer.write_eof()

    async def answer(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        lines = "".join(f"{header}\r\n" for header in (*headers, f"Content-Length: {len(body)}"))
        await self.send(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)

    def reset(self) -> None:
        """Drop the connection with RST instead of FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Server:
    def __init__(self, act: Act) -> None:
        self._act, self.port = act, 0
        self.peers: list[Peer] = []
        self.came = asyncio.Event()
        self.gone = asyncio.Event()  # a connection was seen to end

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, len(self.peers))
        self.peers.append(peer)
        self.came.set()
        try:
            await self._act(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()


@asynccontextmanager
async def listening(act: Act) -> AsyncIterator[Server]:
    server = Server(act)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for peer in server.peers:
            with suppress(AttributeError):  # asyncio's own, for a transport that is closed already
                peer.writer.transport.abort()
        await listener.wait_closed()
        await asyncio.sleep(0)


@asynccontextmanager
async def talking(
    act: Act, limits: LimitSettings | None = None, **settings: Any
) -> AsyncIterator[tuple[OpenAIUpstream, Server]]:
    async with listening(act) as server, asyncio.timeout(30):
        upstream = upstream_at(f"http://127.0.0.1:{server.port}/v1", limits, **settings)
        try:
            yield upstream, server
        finally:
            await upstream.close()


def upstream_at(url: str, limits: LimitSettings | None = None, **settings: Any) -> OpenAIUpstream:
    return OpenAIUpstream("prime", UpstreamSettings(kind="openai", base_url=url, **settings), limits or LimitSettings())


async def whole(upstream: OpenAIUpstream, request: UpstreamRequest = CHAT) -> bytes:
    reply = await upstream.send(request)
    try:
        return await reply.read_all()
    finally:
        await reply.close()


def raw(*pieces: bytes, then: str = "hold") -> Act:
    """Answer every request with these bytes, then hold, close or reset the connection."""

    async def act(peer: Peer) -> None:
        await peer.request()
        for piece in pieces:
            await peer.send(piece)
            await asyncio.sleep(0.01)
        if then == "hold":
            await peer.reader.readexactly(1)
        elif then == "reset":
            peer.reset()

    return act


async def polite(peer: Peer) -> None:
    while True:
        head, body = await peer.request()
        await peer.answer(head.encode() + body, "Content-Type: application/json", "X-Request-ID: r1")
