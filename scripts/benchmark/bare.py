"""The lowest floor: two asyncio protocols with httptools on uvloop that inject 4 KB and know nothing else.

No ASGI, no client library, no limits, no errors: what Python needs at least for this. What comes below `/relay` is
passed on unread, in any dialect.
Prints its port, then serves until its standard input closes: python -m scripts.benchmark.bare UPSTREAM_PORT
"""

import asyncio
import sys
from collections import deque
from typing import Any, cast

import httptools
import orjson
import uvloop

from scripts.benchmark.floor import add_context
from scripts.benchmark.processes import wait_until_stdin_closes

HEAD = b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
JSON_HEAD = b"HTTP/1.1 %d OK\r\ncontent-type: %b\r\ncontent-length: %b\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 %d OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
RELAY = b"/relay"


class UpstreamPool:
    """Idle connections to the upstream."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: deque[UpstreamProtocol] = deque()

    def send(self, request: bytes, client: "ClientProtocol") -> None:
        if self._idle:
            self._idle.pop().send(request, client)
        else:
            asyncio.get_running_loop().create_task(self._connect(request, client))

    async def _connect(self, request: bytes, client: "ClientProtocol") -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: UpstreamProtocol(self), "127.0.0.1", self._port)
        connection.send(request, client)

    def release(self, connection: "UpstreamProtocol") -> None:
        self._idle.append(connection)


class UpstreamProtocol(asyncio.Protocol):
    """A connection to the upstream; what arrives is written to the client at once."""

    def __init__(self, pool: UpstreamPool) -> None:
        self._pool = pool
        self._out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes, client: "ClientProtocol") -> None:
        self._client = client
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        if self._out:
            self._client.write(b"".join(self._out))
            self._out.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status, content_type = self._parser.get_status_code(), self._headers[b"content-type"]
        length = self._headers.get(b"content-length")
        self._chunked = length is None
        head = STREAM_HEAD % (status, content_type) if length is None else JSON_HEAD % (status, content_type, length)
        self._out.append(head)

    def on_body(self, body: bytes) -> None:
        self._out.append(b"%x\r\n%b\r\n" % (len(body), body) if self._chunked else body)

    def on_message_complete(self) -> None:
        if self._chunked:
            self._out.append(END)
        self._pool.release(self)


class ClientProtocol(asyncio.Protocol):
    """A client's connection; requests come one after the other."""

    def __init__(self, pool: UpstreamPool) -> None:
        self._pool = pool
        self._body: list[bytes] = []
        self._parser = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write = self._transport.write

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        sent = b"".join(self._body)
        self._body.clear()
        if not self._url.startswith(RELAY):
            body: dict[str, Any] = orjson.loads(sent)
            add_context(body["messages"])
            sent = orjson.dumps(body)
        self._pool.send(HEAD % (self._url.removeprefix(RELAY), len(sent)) + sent, self)


async def serve(upstream_port: int) -> None:
    pool = UpstreamPool(upstream_port)
    server = await asyncio.get_running_loop().create_server(lambda: ClientProtocol(pool), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await wait_until_stdin_closes()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
