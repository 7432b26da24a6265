"""A model and an embeddings endpoint that stop at the phase of a case, so that its client can leave there."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from scripts.disconnect_check.case import Case, Phase

NAME = re.compile(r"case-(\d+)")
WIDTH = 8
PAUSE = 0.02  # seconds between two events of a stream
PATIENCE = 8.0  # seconds after which an upstream that nobody closes gives up
LONG_ID = "help/book"  # a resource with passages to search
SHORT_ID = "help/note"


class CaseServer:
    """Serves JSON posts on loopback, each connection by a task; knows how many are open."""

    def __init__(self, cases: Mapping[int, Case]) -> None:
        self._cases = cases
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def open_count(self) -> int:
        return len(self._tasks)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def find_case(self, text: str) -> Case | None:
        found = NAME.search(text)
        return self._cases.get(int(found[1])) if found else None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = re.search(rb"content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b"{}"
                await self.answer(orjson.loads(body), reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # also at the end of the run, when whoever still waits is cancelled
        finally:
            self._tasks.discard(task)
            writer.close()

    async def answer(self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


async def wait_for_end(case: Case, reader: asyncio.StreamReader) -> None:
    """Say that the case stands where it should, and wait until the gateway hangs up."""
    case.reached.set()
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            with suppress(OSError):  # it was reset
                await reader.read(1)
            case.note_closed()
    raise asyncio.IncompleteReadError(b"", None)


async def send_json(writer: asyncio.StreamWriter, value: Any) -> None:
    body = orjson.dumps(value)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + body)
    await writer.drain()


class Model(CaseServer):
    """The upstream."""

    async def answer(self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = next(one["content"] for one in body["messages"] if one["role"] == "user")
        case = self.find_case(asked)
        if case is None:
            return await self._say(body, writer, {"content": "Done."})
        case.calls += 1
        if case.phase is Phase.HEAD or (case.phase is Phase.TURN and case.calls > 1):
            await wait_for_end(case, reader)
        elif case.phase is Phase.STREAM:
            await self._stream_on(case, reader, writer)
        elif case.phase is Phase.TOOL and case.calls == 1:
            await self._call(body, writer, {"resource_id": LONG_ID, "query": f"hold {case.name}"})
        elif case.phase is Phase.TURN:
            await self._call(body, writer, {"resource_id": SHORT_ID})
        else:
            await self._say(body, writer, {"content": "Done."})

    async def _stream_on(self, case: Case, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

        async def send_events() -> None:
            event = b"data: " + orjson.dumps(make_chunk({"content": "word "})) + b"\n\n"
            while True:
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
                await writer.drain()
                await asyncio.sleep(PAUSE)

        sending = asyncio.create_task(send_events())
        try:
            await wait_for_end(case, reader)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _call(self, body: dict[str, Any], writer: asyncio.StreamWriter, arguments: dict[str, Any]) -> None:
        function = {"name": "get_context_resource", "arguments": orjson.dumps(arguments).decode()}
        calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
        await self._say(body, writer, {"content": None, "tool_calls": calls}, "tool_calls")

    async def _say(
        self, body: dict[str, Any], writer: asyncio.StreamWriter, message: dict[str, Any], reason: str = "stop"
    ) -> None:
        """A whole answer, or the same as a stream."""
        if not body.get("stream"):
            choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
            return await send_json(writer, {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})
        chunks = [make_chunk({"role": "assistant", **message}), make_chunk({}, reason)]
        events = b"".join(b"data: " + orjson.dumps(one) + b"\n\n" for one in chunks) + b"data: [DONE]\n\n"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(events)
        writer.write(head + events)
        await writer.drain()


def make_chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


class Embeddings(CaseServer):
    """An embeddings endpoint; the question of a case is answered only after its client has left."""

    async def answer(self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        texts = body["input"]
        for text in texts:
            case = self.find_case(text)
            if case is not None and case.phase in (Phase.PREPARE, Phase.TOOL):
                case.reached.set()
                with suppress(TimeoutError):
                    await asyncio.wait_for(case.closed.wait(), PATIENCE)
        rows = [{"index": place, "embedding": [1.0] * WIDTH} for place in range(len(texts))]
        await send_json(writer, {"data": rows})
