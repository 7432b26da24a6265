"""A model endpoint on loopback that answers a stream with one mixed turn, and anything else with a word."""

import asyncio
import json
from types import TracebackType
from typing import Any

from scripts.request_walk.scenario import CALLS, MODEL

HEAD = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": MODEL}
TEXT = ("Let me ", "check.")
USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
PAUSE = 0.02  # seconds between events, so that each one arrives by itself and the count of switches is stable


class ModelEndpoint:
    """Listens while it is entered; `requests` are the bodies that it was sent."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "ModelEndpoint":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._open:
            connection.cancel()
        await asyncio.gather(*self._open)

    @property
    def base_url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while True:
                request = await read_request(reader)
                self.requests.append(request)
                if request.get("stream"):
                    await send_stream(writer, build_mixed_turn())
                else:
                    send_answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the gateway has closed the connection, or it is about to
        finally:
            self._open.discard(task)
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    (length,) = (int(value) for name, _, value in lines if name == b"content-length")
    return dict(json.loads(await reader.readexactly(length)))


def send_answer(writer: asyncio.StreamWriter) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}
    body = json.dumps({**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + body)


async def send_stream(writer: asyncio.StreamWriter, events: list[bytes]) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for event in events:
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await asyncio.sleep(PAUSE)
    writer.write(b"0\r\n\r\n")


def build_mixed_turn() -> list[bytes]:
    """Text, a call of the gateway's tool and a call of the client's, each in the pieces that models send."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": text} for text in TEXT)]
    for index, (identity, name, arguments) in enumerate(CALLS):
        function = {"name": name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": identity, "type": "function", "function": function}]})
        half = len(arguments) // 2
        for piece in (arguments[:half], arguments[half:]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])
    chunks = [{**HEAD, "object": "chat.completion.chunk", "choices": choice} for choice in choices]
    chunks.append({**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
    return [b"data: %b\n\n" % event for event in (*(json.dumps(chunk).encode() for chunk in chunks), b"[DONE]")]
