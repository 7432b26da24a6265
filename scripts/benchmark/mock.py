"""The upstream: an HTTP/1.1 server that does next to nothing, in a process of its own.

Prints its port, then serves until its standard input closes.
"""

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import cast

import uvloop

from scripts.benchmark import dialect_payloads, payloads
from scripts.benchmark.dialect_payloads import PATHS as DIALECT_PATHS
from scripts.benchmark.processes import wait_until_stdin_closes

TICK = 0.001
CHUNKS_PER_TICK = 4  # of all paced streams together: a rate at which no server under test falls behind

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_USAGE = re.compile(rb'"include_usage"\s*:\s*true')

JSON_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_bench\r\ncontent-length: %d\r\n\r\n"
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
PIECES = 16  # of a stream for whoever compares what is done for each
# Between two of them: by then, a gateway has read the last one.
PIECE_SECONDS = {payloads.PIECES.encode(): 0.002, payloads.SLOW_PIECES.encode(): 0.01}
BORDER = b"\0"  # which stands in no JSON


def encode_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class PreparedAnswers:
    """Everything that is ever sent, ready as bytes."""

    def __init__(self) -> None:
        self.whole = {dialect: encode_whole(dialect_payloads.build_reply(dialect)) for dialect in DIALECT_PATHS}
        self.chunks = {
            usage: [encode_chunk(event) for event in payloads.build_events(usage=usage)] for usage in (False, True)
        }
        self.others = {
            dialect: [encode_chunk(event) for event in dialect_payloads.build_events(dialect)]
            for dialect in DIALECT_PATHS
            if dialect != "chat"
        }

        self._numbers = count()

    def find_whole(self, dialect: str) -> bytes:
        whole = self.whole[dialect]
        return dialect_payloads.number_ids(whole, next(self._numbers)) if dialect == "responses" else whole

    def find_chunks(self, dialect: str, body: bytes) -> Iterable[bytes]:
        chunks = self.others.get(dialect) or self.chunks[_USAGE.search(body) is not None]
        if dialect != "responses":
            return chunks
        # All at once: a stream whose chunks took longer to write would be read in smaller pieces than others.
        return dialect_payloads.number_ids(BORDER.join(chunks), next(self._numbers)).split(BORDER)


class Pacer:
    """Sends the chunks of paced streams one by one, in turn."""

    def __init__(self) -> None:
        self._streams: deque[tuple[asyncio.Transport, Iterator[bytes]]] = deque()

    def add(self, transport: asyncio.Transport, chunks: Iterable[bytes]) -> None:
        self._streams.append((transport, chain(chunks, (END,))))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            for _ in range(min(CHUNKS_PER_TICK, len(self._streams))):
                transport, chunks = self._streams.popleft()
                chunk = next(chunks, None)
                if chunk is not None and not transport.is_closing():
                    transport.write(chunk)
                    self._streams.append((transport, chunks))


class BurstStream:
    """Sends a stream's chunks in single writes, as fast as the loop turns."""

    def __init__(self, transport: asyncio.Transport, chunks: Iterable[bytes]) -> None:
        self._transport, self._chunks = transport, chain(chunks, (END,))

    def step(self) -> None:
        chunk = next(self._chunks, None)
        if chunk is not None and not self._transport.is_closing():
            self._transport.write(chunk)
            asyncio.get_running_loop().call_soon(self.step)


class PieceStream:
    """Sends a stream in a fixed number of pieces, slowly enough for each to be read by itself."""

    def __init__(self, transport: asyncio.Transport, chunks: Iterable[bytes], seconds: float) -> None:
        self._transport, self._seconds = transport, seconds
        parts = [STREAM_HEAD, *chunks, END]
        self._pieces = iter(
            [
                b"".join(parts[len(parts) * number // PIECES : len(parts) * (number + 1) // PIECES])
                for number in range(PIECES)
            ]
        )

    def step(self) -> None:
        piece = next(self._pieces, None)
        if piece is not None and not self._transport.is_closing():
            self._transport.write(piece)
            asyncio.get_running_loop().call_later(self._seconds, self.step)


class MockUpstream(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self, answers: PreparedAnswers, pacer: Pacer) -> None:
        self._answers, self._pacer = answers, pacer
        self._data, self._needed = bytearray(), 0  # what has come, and how much of it makes a request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) < self._needed:
            return  # a large body comes in many parts: it is looked at once
        head = self._data.find(b"\r\n\r\n")
        if head < 0:
            return
        length = _LENGTH.search(self._data, 0, head + 2)
        self._needed = head + 4 + (int(length[1]) if length else 0)
        if len(self._data) >= self._needed:
            request, self._data = bytes(self._data[: self._needed]), self._data[self._needed :]
            self._needed = 0
            self._answer(find_dialect(request[: request.find(b"\r\n")]), request[head + 4 :])

    def _answer(self, dialect: str, body: bytes) -> None:
        if payloads.PROBE.encode() in body:
            self._transport.write(build_probe_reply(dialect, body))
        elif not _STREAM.search(body):
            self._transport.write(self._answers.find_whole(dialect))
        else:
            self._stream(self._answers.find_chunks(dialect, body), body)

    def _stream(self, chunks: Iterable[bytes], body: bytes) -> None:
        seconds = next((seconds for model, seconds in PIECE_SECONDS.items() if model in body), None)
        if seconds is not None:
            PieceStream(self._transport, chunks, seconds).step()
            return
        self._transport.write(STREAM_HEAD)
        if payloads.PACED.encode() in body:
            self._pacer.add(self._transport, chunks)
        else:
            BurstStream(self._transport, chunks).step()


def find_dialect(line: bytes) -> str:
    """The dialect of a request, by its first line."""
    return next((name for name, path in DIALECT_PATHS.items() if path.encode() in line), "chat")


def build_probe_reply(dialect: str, body: bytes) -> bytes:
    """A reply whose text says what arrived."""
    received = f"context={payloads.MARK.encode() in body} tools={b'get_context_resource' in body}"
    return encode_whole(dialect_payloads.build_reply(dialect, received))


def encode_whole(body: bytes) -> bytes:
    return JSON_HEAD % len(body) + body


async def serve() -> None:
    answers, pacer = PreparedAnswers(), Pacer()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: MockUpstream(answers, pacer), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    pacing = loop.create_task(pacer.run())
    await wait_until_stdin_closes()
    pacing.cancel()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve())
