"""What is wrong with a request as HTTP is refused alike on every path, and nothing of it reaches an upstream."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import orjson
import pytest

from gateway.conversation.dialects.registry import DIALECTS as DIALECT_OBJECTS
from gateway.domain.dialect import DialectName
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.spoken import CHAT_MODEL, DIALECTS, MESSAGES_MODEL, TRANSLATED, Entry, Spoken
from tests.support.upstream import Canned, Gate, Response, Upstream, reply, say, wait_for
from tests.wire.test_dialect_cuts import record

CHAT = b"POST /v1/chat/completions"
POSTED = (
    CHAT,
    b"POST /v1/responses",
    b"POST /v1/messages",
    b"POST /v1/messages/count_tokens",
    b"POST /mcp",
    b"POST /v1/embeddings",
)
STORED = (
    b"GET /v1/responses/resp_x",
    b"HEAD /v1/responses/resp_x",
    b"DELETE /v1/responses/resp_x",
    b"GET /v1/responses/resp_x/input_items",
    b"POST /v1/responses/resp_x/cancel",
    b"GET /mcp",
    b"DELETE /mcp",
)
ASKED = {
    "model": "m-large",
    "max_tokens": 5,
    "messages": [{"role": "user", "content": "Hi"}],
    "input": "Hi",
    "jsonrpc": "2.0",
    "id": 1,
    "method": "ping",
}
BODY = orjson.dumps(ASKED)
SPEAKS: dict[str, DialectName] = {CHAT_MODEL: "chat", MESSAGES_MODEL: "messages"}
INNER = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"


def write_head(line: bytes, *fields: bytes) -> bytes:
    usual = (b"host: localhost", b"content-type: application/json", b"accept: application/json, text/event-stream")
    return b"\r\n".join([line + b" HTTP/1.1", *usual, *fields, b"", b""])


def exchange(client: Client, sent: bytes) -> bytes:
    """Everything that comes back on a connection of its own until the gateway ends it."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def read_refusal(answer: bytes) -> tuple[bytes, str]:
    """The status and the code of the only answer."""
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    return answer.split(b" ")[1], orjson.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]


LENGTH = b"content-length: %d" % len(BODY)
CHUNKED = b"transfer-encoding: chunked"
BROKEN: dict[str, bytes] = {
    "two lengths": b"content-length: 0\r\n" + LENGTH,
    "length and chunks": LENGTH + b"\r\n" + CHUNKED,
    "chunks and length": CHUNKED + b"\r\n" + LENGTH,
    "chunks inside": b"transfer-encoding: chunked, identity",
    "a signed length": b"content-length: +%d" % len(BODY),
    "a long length": b"content-length: " + b"9" * 400,
    "two numbers": b"content-length: %d, %d" % (len(BODY), len(BODY)),
    "a folded line": b"x-context-agent: edi\r\n tor\r\n" + LENGTH,
    "a space before the colon": b"content-length : %d" % len(BODY),
    "a name with a space": b"x context: a\r\n" + LENGTH,
    "a bare carriage return": b"x-a: b\rc: d\r\n" + LENGTH,
    "a zero byte": b"x-a: b\x00c\r\n" + LENGTH,
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_request_that_two_parsers_read_differently_is_refused(
    gateway: Client, upstream: Upstream, broken: str
) -> None:
    for line in POSTED + STORED:
        answer = exchange(gateway, write_head(line, BROKEN[broken]) + BODY + INNER)
        assert read_refusal(answer) == (b"400", "invalid_request"), line
    assert upstream.seen == []


@pytest.mark.parametrize("line", POSTED + STORED)
@pytest.mark.parametrize("trailer", [b"x-context-agent: editor", b"if-match: 1", b"x: " + b"y" * 2_000_000])
def test_trailers_are_refused_on_every_path(gateway: Client, upstream: Upstream, line: bytes, trailer: bytes) -> None:
    head = write_head(line, CHUNKED, b"trailer: x-context-agent")
    answer = exchange(gateway, head + b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY) + trailer + b"\r\n\r\n")
    if line in STORED and len(trailer) > 100_000 and not answer.startswith(b"HTTP/1.1 400 "):
        assert answer.split(b" ")[1] in (b"404", b"405")  # it needs no body: it was answered before the trailer came
    else:
        assert read_refusal(answer) == (b"400", "invalid_request")
    assert upstream.seen == []


@pytest.mark.parametrize("line", POSTED + STORED)
def test_a_head_that_is_too_large_is_refused_on_every_path(gateway: Client, upstream: Upstream, line: bytes) -> None:
    limit = gateway.app.settings.limits.header_bytes
    for fields in ([b"x-a: " + b"y" * limit], [b"x-%d: y" % number for number in range(limit // 6)]):
        answer = exchange(gateway, write_head(line, *fields, LENGTH) + BODY)
        assert read_refusal(answer) == (b"431", "headers_too_large")
    assert upstream.seen == []


@pytest.mark.parametrize("line", [*STORED, b"GET /v1/embeddings"])
def test_the_body_of_a_request_that_has_none_goes_nowhere(gateway: Client, upstream: Upstream, line: bytes) -> None:
    if line.endswith(b"/embeddings"):
        upstream.will(reply(b'{"object":"list","data":[]}'))
    head = line + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(INNER)
    answer = exchange(gateway, head + INNER)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.split(b" ")[1] in (b"200", b"404", b"405")
    for seen in upstream.seen:
        assert (seen.method, seen.body) == ("GET", b"")
        assert not {"content-length", "transfer-encoding"} & seen.headers.keys()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_the_body_of_a_question_about_a_response_goes_nowhere(
    gateway: Client, upstream: Upstream, method: str
) -> None:
    kept = Canned(Response(200, "application/json", (b'{"id":"resp_1","output":[]}',)))
    upstream.will(say("First."), kept)
    first = await gateway.post(b'{"model":"m-large","input":"Hi"}', path="/responses", x_context_agent="bare")
    line = f"{method} /v1/responses/{first.json['id']}".encode()
    head = write_head(line, b"connection: close", b"content-length: %d" % len(INNER))
    answer = await asyncio.to_thread(exchange, gateway, head + INNER)
    assert (answer.split(b" ")[1], answer.count(b"HTTP/1.1 ")) == (b"200", 1)
    assert (upstream.seen[1].method, upstream.seen[1].body) == (method, b"")


@pytest.fixture(scope="module")
def impatient(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory: Path = tmp_path_factory.mktemp("impatient")
    limits = {"body_seconds": 0.3, "header_seconds": 0.3, "body_bytes": 20_000}
    with running_gateway(thread, directory, scripted.base_url, limits=limits) as client:
        yield client


def test_slow_heads_and_bodies_are_cut_off_on_every_path(impatient: Client, upstream: Upstream) -> None:
    for line in POSTED:
        late = exchange(impatient, write_head(line, b"content-length: 100") + b'{"model"')
        assert read_refusal(late) == (b"408", "request_timeout"), line
        head = exchange(impatient, write_head(line, b"x-a: b")[:-4])
        assert read_refusal(head) == (b"408", "request_timeout"), line
    assert upstream.seen == []


def test_bodies_that_are_too_large_are_refused_on_every_path(impatient: Client, upstream: Upstream) -> None:
    whole = b'{"model":"' + b"x" * 20_000 + b'"}'
    for line in POSTED:
        if line.endswith(b"/mcp"):
            continue  # its messages have a bound of their own
        for sent in (
            write_head(line, b"connection: close", b"content-length: %d" % len(whole)) + whole,
            write_head(line, b"connection: close", CHUNKED) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(whole), whole),
        ):
            answer = exchange(impatient, sent)
            assert (answer.split(b" ")[1], answer.count(b"HTTP/1.1 ")) == (b"413", 1), line
    assert upstream.seen == []


@pytest.mark.parametrize("name", [*DIALECTS, *TRANSLATED])
@pytest.mark.parametrize("agent", ["bare", "editor"], ids=["relayed", "with tools"])
async def test_a_client_that_leaves_in_the_middle_frees_the_upstream_and_keeps_nothing(
    gateway: Client, upstream: Upstream, name: str, agent: str
) -> None:
    spoken: Spoken = {**DIALECTS, **TRANSLATED}[name]
    speaks = SPEAKS.get(spoken.model) or (spoken.name if spoken.name in DIALECT_OBJECTS else "chat")
    told, gate = record(say("Done, and more."), speaks, 1), Gate()
    cut = told.rindex(b"\n\n", 0, -2) + 2  # all but its end
    upstream.will(Canned(Response(200, "text/event-stream", (told[:cut], gate, told[cut:]))))
    body, url = spoken.write([Entry("user", "Hi")], stream=True), gateway.base_url + spoken.path
    queue = gateway.app.pipeline.responses.queue
    await asyncio.to_thread(wait_for, lambda: not len(queue))
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session,
        session.post(url, json=body, headers={"x-context-agent": agent}) as response,
    ):
        assert response.status == 200
        await response.content.readany()
        await asyncio.to_thread(gate.reached.wait, 10)
    await asyncio.to_thread(wait_for, upstream.seen[0].gone.is_set)
    gate.open()
    await asyncio.to_thread(wait_for, lambda: gateway.app.metrics.in_flight == 0)
    assert not len(queue)
