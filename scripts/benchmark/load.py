"""The load generator: keep-alive clients on raw sockets, in a process of its own.

Reads one order per line as JSON, prints one result per line. It reads the CPU clock of the server under test itself,
before and after the measured requests, so that opening connections is not counted. Both times it lets the server come
to rest first: Linux adds what a running process has used at its next tick, up to 4 ms later.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterable
from typing import Any, cast

import uvloop

from scripts.benchmark.processes import read_cpu_seconds

SECONDS = 30  # that one run may take
SETTLE_SECONDS = 0.12  # what a server writes behind a request, 50 ms later at most, belongs to it
TAIL = 64  # bytes of a stream that are kept: enough for [DONE] and the last chunk

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_END = b"0\r\n\r\n"
CRLF = b"\r\n"


class LoadRun:
    """A number of requests shared by all clients, and the wait for the last answer."""

    def __init__(self) -> None:
        self._left = 0
        self._open = 0
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.milliseconds: list[float] = []  # that each answer took

    async def send(self, clients: Iterable["LoadClient"], requests: int) -> None:
        self._left = self._open = requests
        self.milliseconds = []
        self._done = asyncio.get_running_loop().create_future()
        for client in clients:
            self.send_next(client)
        async with asyncio.timeout(SECONDS):
            await self._done

    def send_next(self, client: "LoadClient") -> None:
        if self._left > 0:
            self._left -= 1
            client.send()

    def count_answer(self, client: "LoadClient", seconds: float) -> None:
        self._open -= 1
        self.milliseconds.append(round(seconds * 1000, 3))
        self.send_next(client)
        if self._open == 0 and not self._done.done():
            self._done.set_result(None)

    def fail(self, why: str) -> None:
        if self._open and not self._done.done():
            self._done.set_exception(RuntimeError(why))


class LoadClient(asyncio.Protocol):
    """One connection that has one request under way at most."""

    def __init__(self, run: LoadRun, request: bytes, end: bytes) -> None:
        self._run, self._request, self._end = run, request, end  # b"": it is no stream
        self._data = b""
        self._left = -1  # bytes of the body to come; -1: its head is not there yet
        self._chunked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.fail("The server closed a connection.")

    def close(self) -> None:
        self._transport.abort()

    def send(self) -> None:
        self._data, self._left, self._chunked = b"", -1, False
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._left < 0:
            self._data += data
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                return
            self._read_head(self._data[: end + 2])
            data, self._data = self._data[end + 4 :], b""
        if self._chunked:
            self._data = (self._data + data)[-TAIL:]
            if self._data.endswith(_END):
                self._complete()
        else:
            self._left -= len(data)
            if self._left == 0:
                self._complete()

    def _read_head(self, head: bytes) -> None:
        if not head.startswith(b"HTTP/1.1 200"):
            self._run.fail(f"The server answered {head.split(CRLF)[0].decode('latin-1')!r}.")
        length = _LENGTH.search(head)
        self._chunked = length is None
        self._left = int(length[1]) if length else 0

    def _complete(self) -> None:
        if self._end and self._end not in self._data:
            self._run.fail(f"A stream ended without {self._end.decode()!r}.")
        self._run.count_answer(self, time.perf_counter() - self._sent)


async def run_order(order: dict[str, Any]) -> dict[str, Any]:
    """One run: connect, one request per connection to warm up, then the measured ones."""
    loop, run = asyncio.get_running_loop(), LoadRun()
    request = order["request"].encode()
    clients = []
    for _ in range(order["concurrency"]):
        _, client = await loop.create_connection(
            lambda: LoadClient(run, request, order["end"].encode()), "127.0.0.1", order["port"]
        )
        clients.append(client)
    await run.send(clients, len(clients))
    await asyncio.sleep(SETTLE_SECONDS)
    cpu, began = read_cpu_seconds(order["pids"]), loop.time()
    await run.send(clients, order["requests"])
    seconds = loop.time() - began
    await asyncio.sleep(SETTLE_SECONDS)
    cpu = read_cpu_seconds(order["pids"]) - cpu
    for client in clients:
        client.close()
    return {"cpu": cpu, "seconds": seconds, "milliseconds": run.milliseconds}


async def serve() -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            result: dict[str, Any] = await run_order(json.loads(line))
        except (OSError, RuntimeError, TimeoutError) as error:
            result = {"error": str(error) or type(error).__name__}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    uvloop.run(serve())
