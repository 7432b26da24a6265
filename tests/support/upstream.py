"""A scripted model endpoint on loopback: says what a test tells it to, byte by byte, and records what it was asked."""

import asyncio
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import orjson

PATIENCE = 10.0  # seconds after which a test that waits is broken
LONGEST_PAUSE = 0.02  # seconds between two looks at what a test waits for
HEAD: dict[str, Any] = {"id": "chatcmpl-{n}", "created": 1_700_000_000, "model": "m-large"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}

End = Literal["close", "reset"]


class Gate:
    """A point in a script where the upstream waits until the test opens it."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.reached = threading.Event()

    def open(self) -> None:
        self._open.set()

    async def passed(self) -> None:
        self.reached.set()
        await asyncio.to_thread(self._open.wait, PATIENCE)


Piece = bytes | Gate | float  # bytes to write, a gate to wait at, seconds to sleep


@dataclass(frozen=True)
class Response:
    """What goes over the wire for one request."""

    status: int
    media: str
    pieces: tuple[Piece, ...]
    headers: tuple[tuple[str, str], ...] = ()
    end: End = "close"


class Reaction(Protocol):
    """One step of a script."""

    def respond(self, request: dict[str, Any], number: int) -> Response | None:
        """The response to the `number`th request; None hangs up without a word."""
        ...


def sse(payload: Any, newline: bytes = b"\n") -> bytes:
    """One event; bytes are taken as they are."""
    return b"data: " + (payload if isinstance(payload, bytes) else orjson.dumps(payload)) + newline * 2


@dataclass(frozen=True)
class Answer:
    """A well-behaved assistant turn: one JSON document, or the same as chunks when a stream was asked for."""

    message: dict[str, Any]
    finish_reason: str
    usage: dict[str, Any] | None = field(default_factory=lambda: dict(USAGE))
    pieces: int = 3  # characters per text or arguments delta
    split: int = 0  # bytes per write, 0: an event per write
    packed: bool = False  # the whole stream in one write
    newline: bytes = b"\n"
    before: tuple[Piece, ...] = ()  # what happens before the first byte
    after_text: tuple[Piece, ...] = ()  # what happens between text and calls
    top: dict[str, Any] = field(default_factory=dict)  # further fields of the reply or of every chunk
    headers: tuple[tuple[str, str], ...] = ()

    def but(self, **changes: Any) -> "Answer":
        """The same turn with another way of sending it."""
        return replace(self, **changes)

    def respond(self, request: dict[str, Any], number: int) -> Response:
        head = {**HEAD, "id": HEAD["id"].format(n=number), **self.top}
        if not request.get("stream"):
            choice = {"index": 0, "message": self.message, "logprobs": None, "finish_reason": self.finish_reason}
            body: dict[str, Any] = {**head, "object": "chat.completion", "choices": [choice]}
            if self.usage is not None:
                body["usage"] = self.usage
            return Response(200, "application/json", (*self.before, orjson.dumps(body)), self.headers)
        wanted = (request.get("stream_options") or {}).get("include_usage")
        pieces = (*self.before, *self._stream({**head, "object": "chat.completion.chunk"}, bool(wanted)))
        return Response(200, "text/event-stream; charset=utf-8", pieces, self.headers)

    def _stream(self, head: dict[str, Any], usage: bool) -> list[Piece]:
        def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
            return sse({**head, "choices": [choice]}, self.newline)

        texts = [chunk(delta) for delta in text_deltas(self.message, self.pieces)]
        calls = [chunk({"tool_calls": [delta]}) for delta in call_deltas(self.message, self.pieces)]
        last = [chunk({}, self.finish_reason)]
        if usage and self.usage is not None:
            last.append(sse({**head, "choices": [], "usage": self.usage}, self.newline))
        last.append(sse(b"[DONE]", self.newline))
        return [*self._cut(texts), *self.after_text, *self._cut([*calls, *last])]

    def _cut(self, events: list[bytes]) -> list[Piece]:
        whole = b"".join(events)
        if self.packed:
            return [whole]
        if self.split:
            return [whole[at : at + self.split] for at in range(0, len(whole), self.split)]
        return list(events)


def text_deltas(message: dict[str, Any], size: int) -> Iterable[dict[str, Any]]:
    """The role, then every text field in pieces, unknown fields whole."""
    yield {"role": "assistant", "content": "" if message.get("content") is not None else None}
    for name, value in message.items():
        if name in ("role", "tool_calls") or value is None:
            continue
        if isinstance(value, str):
            yield from ({name: value[at : at + size]} for at in range(0, len(value), size))
        else:
            yield {name: value}


def call_deltas(message: dict[str, Any], size: int) -> Iterable[dict[str, Any]]:
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        yield {"index": index, **call, "function": {"name": function["name"], "arguments": ""}}
        text = function["arguments"]
        for at in range(0, len(text), size):
            yield {"index": index, "function": {"arguments": text[at : at + size]}}


def tool_call(name: str, id: str | None = None, /, **arguments: Any) -> dict[str, Any]:
    """One call as it stands in a message; without an id one is made from its name and arguments."""
    text = orjson.dumps(arguments).decode()
    made = f"call_{name}_{sum(text.encode()) % 9973}"
    return {"id": id or made, "type": "function", "function": {"name": name, "arguments": text}}


def say(text: str, /, **fields: Any) -> Answer:
    """A turn of text; `fields` are further fields of the message."""
    return Answer({"role": "assistant", **fields, "content": text}, "stop")


def call(name: str, /, **arguments: Any) -> Answer:
    """A turn that calls one tool."""
    return mixed(tool_call(name, **arguments))


def mixed(*calls: dict[str, Any], text: str | None = None, **fields: Any) -> Answer:
    """A turn of several calls, with text before them if there is any."""
    message = {"role": "assistant", **fields, "content": text, "tool_calls": list(calls)}
    return Answer(message, "tool_calls")


@dataclass(frozen=True)
class Canned:
    """A response as it is, whatever was asked."""

    response: Response | None

    def respond(self, request: dict[str, Any], number: int) -> Response | None:
        return self.response


def raw_events(events: Iterable[Any], end: End = "close", newline: bytes = b"\n") -> Canned:
    """A stream of exactly these events: dicts become chunks; bytes, gates and pauses are taken as they are."""
    pieces = tuple(sse(event, newline) if isinstance(event, dict) else event for event in events)
    return Canned(Response(200, "text/event-stream", pieces, end=end))


def chunks(*deltas: dict[str, Any], finish_reason: str | None = None, **top: Any) -> list[dict[str, Any]]:
    """Chunk objects for `raw_events`; `finish_reason` stands in the last one."""
    made = [{**HEAD, "id": "chatcmpl-1", **top, "object": "chat.completion.chunk"} for _ in deltas]
    for at, (chunk, delta) in enumerate(zip(made, deltas, strict=True)):
        finish = finish_reason if at == len(deltas) - 1 else None
        chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return made


def status(code: int, body: Any = None, **headers: str) -> Canned:
    """An error reply in OpenAI's shape, or with any other JSON body."""
    told = {"error": {"message": f"failed with {code}", "type": "server_error", "param": None, "code": "broken"}}
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Canned(Response(code, "application/json", (orjson.dumps(told if body is None else body),), named))


def reply(body: bytes, media: str = "application/json", code: int = 200, end: End = "close") -> Canned:
    """Any bytes under any media type."""
    return Canned(Response(code, media, (body,), end=end))


def html(code: int = 200) -> Canned:
    return reply(b"<html>Bad gateway</html>", "text/html", code)


def hang_up() -> Canned:
    """Close the connection without a word."""
    return Canned(None)


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    gone: threading.Event = field(default_factory=threading.Event)  # the gateway closed the connection early
    gone_at: float = 0.0

    @property
    def json(self) -> dict[str, Any]:
        is_form = self.headers.get("content-type", "").startswith("multipart/")
        return dict(orjson.loads(self.body)) if self.body and not is_form else {}


WriteAnswer = Callable[[Answer, dict[str, Any], int], Response]


class Upstream:
    """Answers the requests of one test, in the order of its script."""

    def __init__(self) -> None:
        self.script: deque[Reaction] = deque()
        self.seen: list[Seen] = []
        self.models = ["m-large", "m-small"]
        self.dialects: dict[str, WriteAnswer] = {}  # how answers are written for paths with these ends
        self.notice_models: Callable[[Seen], None] | None = None  # called with every request for the model list
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0

    def will(self, *steps: Reaction) -> None:
        """React like this to the next requests, one step each."""
        self.script.extend(steps)

    def reset(self) -> None:
        self.script.clear()
        self.seen.clear()

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The chat requests so far, parsed."""
        return [one.json for one in self.seen]

    @property
    def bodies(self) -> list[bytes]:
        """The chat requests so far, as they came."""
        return [one.body for one in self.seen]

    @property
    def headers(self) -> list[dict[str, str]]:
        return [one.headers for one in self.seen]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            kept = False
            async for seen in requests_on(reader):
                if kept and self.script and self.script[0] == hang_up():
                    break  # the gateway tries a dead kept connection again: only on a new one it is an answer
                if not await self._react(seen, reader, writer):
                    break
                kept = True
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    def _follow(self, step: Reaction, seen: Seen) -> Response | None:
        """What a step of the script comes to, in the dialect of the request."""
        path = seen.path.partition("?")[0]
        write = next((write for end, write in self.dialects.items() if path.endswith(end)), None)
        if write is not None and isinstance(step, Answer):
            return write(step, seen.json, len(self.seen))
        return step.respond(seen.json, len(self.seen))

    async def _react(self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send what the script says; whether the connection may serve another request."""
        if seen.path.partition("?")[0].endswith("/models"):
            if self.notice_models is not None:
                self.notice_models(seen)
            cards = [{"id": name, "object": "model", "created": 1, "owned_by": "scripted"} for name in self.models]
            response: Response | None = Response(
                200, "application/json", (orjson.dumps({"object": "list", "data": cards}),)
            )
        else:
            self.seen.append(seen)
            if not self.script:
                response = status(418, {"error": {"message": "the script is over"}}).response
            else:
                response = self._follow(self.script.popleft(), seen)
        if response is None:
            return False
        watching = asyncio.create_task(notice_leaving(reader, seen))
        try:
            await send(response, writer, seen)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        return response.end == "close" and not seen.gone.is_set()


async def requests_on(reader: asyncio.StreamReader) -> AsyncIterator[Seen]:
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        yield Seen(method, path, headers, body)


async def notice_leaving(reader: asyncio.StreamReader, seen: Seen) -> None:
    """Nothing more is expected from the gateway while it is answered: what comes is the end of the connection."""
    with suppress(ConnectionError):
        if await reader.read(1):
            return
    seen.gone_at = time.monotonic()
    seen.gone.set()


async def send(response: Response, writer: asyncio.StreamWriter, seen: Seen) -> None:
    """Chunked, one chunk per piece, so that the pieces arrive as they were cut; no last chunk before a reset."""
    lines = [f"HTTP/1.1 {response.status} scripted", f"content-type: {response.media}", "transfer-encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in response.headers]
    head: bytes | None = "\r\n".join([*lines, "", ""]).encode()
    for piece in response.pieces:
        if isinstance(piece, Gate):
            await piece.passed()
        elif isinstance(piece, float):
            await asyncio.sleep(piece)
        elif piece:
            writer.write((head or b"") + b"%x\r\n%b\r\n" % (len(piece), piece))
            head = None
            await writer.drain()
        if seen.gone.is_set():
            return
    if response.end == "reset":
        writer.write(head or b"")
        await asyncio.sleep(0.01)  # what was written has to arrive first
        abort(writer)
        return
    writer.write((head or b"") + b"0\r\n\r\n")
    await writer.drain()


def abort(writer: asyncio.StreamWriter) -> None:
    """Drop the connection with a reset."""
    plug = writer.get_extra_info("socket")
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def wait_for(condition: Callable[[], bool], seconds: float = 3 * PATIENCE) -> None:
    """Look often at first and then less often: to look may be work, which slows down what is waited for."""
    end, pause = time.monotonic() + seconds, 0.002
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(pause)
        pause = min(1.2 * pause, LONGEST_PAUSE)
