"""The floods: each sends much over many connections and reads what comes back."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

import orjson

KEY, ADMIN = "hostile-chat", "hostile-admin"
WAIT_SECONDS = 10.0
HOLD_SECONDS = 2.0  # that a connection stays open although nothing comes any more
TRAILER_BYTES = 32_000_000
TEXT_BYTES = 5_000_000
CHUNKED_BYTES = 1_000_000
CONNECTIONS = 500
HALF_HEAD_BYTES = 60_000
PIPELINED_BYTES = 250_000
STORED_BYTES = 2_000_000
NODE_BYTES = 4_000_000
MCP_BYTES = 250_000

Flood = Callable[[str, float], Awaitable[int]]  # address and scale in, bytes that were sent out


def make_head(*lines: str, path: str = "/v1/chat/completions", key: str = KEY, method: str = "POST") -> bytes:
    start = (f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {key}", "accept: */*")
    return "\r\n".join((*start, "content-type: application/json", *lines, "", "")).encode()


async def send(address: str, *pieces: bytes, hold: float = 0.0) -> int:
    """Send as much as the gateway takes, and read until it closes or says nothing more; returns the bytes sent."""
    target, sent = urlsplit(address), 0
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    drain = asyncio.create_task(_read_all(reader))
    try:
        with suppress(OSError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
            await asyncio.sleep(hold)
    finally:
        drain.cancel()
        writer.close()
    return sent


async def _read_all(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(65536):
            pass


async def ask(
    address: str, body: bytes, path: str = "/v1/chat/completions", key: str = KEY, method: str = "POST"
) -> int:
    """One whole request, a chat unless said otherwise; its answer is read."""
    target = urlsplit(address)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS):
            head = make_head(f"content-length: {len(body)}", "connection: close", path=path, key=key, method=method)
            writer.write(head + body)
            await writer.drain()
            await _read_all(reader)
    writer.close()
    return len(body)


async def send_trailers(address: str, scale: float) -> int:
    """Endless trailers behind a small body."""
    start = make_head("transfer-encoding: chunked") + b"2\r\n{}\r\n0\r\n"
    lines = [b"x-%d: " % number + b"y" * 10_000 + b"\r\n" for number in range(int(scale * TRAILER_BYTES / 10_000))]
    return await send(address, start, *lines)


async def send_long_names(address: str, scale: float) -> int:
    """Names of 5 MB that nobody knows, in every place that takes one."""
    sent = 0
    fields = ("agent", "session", "profile", "content", "include", "exclude", "contexts", "vars", "pin", "language")
    for number in range(max(len(fields), int(60 * scale))):
        field, text = fields[number % len(fields)], f"{number}-" + "k" * TEXT_BYTES
        value = (
            {text: "v"} if field == "vars" else [text] if field in ("include", "exclude", "contexts", "pin") else text
        )
        context: dict[str, object] = {"agent": "support", "session": "s", field: value}
        sent += await ask(address, make_chat("Hello", context))
    return sent


async def send_long_questions(address: str, scale: float) -> int:
    """Questions of 5 MB, each another one."""
    texts = (f"{number} " + "What is it? " * (TEXT_BYTES // 12) for number in range(max(4, int(30 * scale))))
    return sum([await ask(address, make_chat(text, {"agent": "support"})) for text in texts])


async def send_tiny_chunks(address: str, scale: float) -> int:
    """Bodies in chunks of one byte, on some connections at once."""
    body = make_chat("x" * int(scale * CHUNKED_BYTES), {"agent": "support"})
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    pieces = [chunks[at : at + 60_000] for at in range(0, len(chunks), 60_000)]
    start = make_head("transfer-encoding: chunked")
    return sum(await asyncio.gather(*(send(address, start, *pieces, b"0\r\n\r\n", hold=1) for _ in range(8))))


async def hold_half_heads(address: str, scale: float) -> int:
    """Connections that never finish their head."""
    half = make_head()[:-2] + b"x: " + b"y" * HALF_HEAD_BYTES
    count = int(CONNECTIONS * scale)
    return sum(await asyncio.gather(*(send(address, half, hold=HOLD_SECONDS) for _ in range(count))))


async def hold_half_bodies(address: str, scale: float) -> int:
    """Connections that announce a large body and send the beginning."""
    start = make_head("content-length: 30000000") + b'{"messages": ["' + b"y" * 200_000
    return sum(await asyncio.gather(*(send(address, start, hold=HOLD_SECONDS) for _ in range(int(200 * scale)))))


async def send_requests_ahead(address: str, scale: float) -> int:
    """Thousands of requests in one packet, on many connections."""
    one = b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    many = one * (PIPELINED_BYTES // len(one))
    return sum(await asyncio.gather(*(send(address, many, hold=1) for _ in range(int(200 * scale)))))


async def store_responses(address: str, scale: float) -> int:
    """Responses that the gateway has to keep, each with an input of 2 MB."""
    texts = (f"{number} " + "word " * (STORED_BYTES // 5) for number in range(max(4, int(40 * scale))))
    bodies = (orjson.dumps({"model": "m", "input": text}) for text in texts)
    return sum([await ask(address, body, "/v1/responses") for body in bodies])


async def send_messages(address: str, scale: float) -> int:
    """Messages in 200,000 blocks."""
    count = max(1000, int(200_000 * scale))
    content = [{"type": "text", "text": f"{number}"} for number in range(count)]
    body = orjson.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]})
    return sum([await ask(address, body, path) for path in ("/v1/messages", "/v1/messages/count_tokens") * 3])


async def call_mcp(address: str, scale: float) -> int:
    """Messages of an MCP client, each about as large as one may be, on some connections at once."""

    async def call(number: int) -> int:
        params = {"name": "get_context_resource", "arguments": {"resource_id": f"{number}" + "x" * MCP_BYTES}}
        body = orjson.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        return await ask(address, body, "/mcp")

    count = max(20, int(400 * scale))
    return sum([sum(await asyncio.gather(*map(call, range(at, at + 20)))) for at in range(0, count, 20)])


async def store_nodes(address: str, scale: float) -> int:
    """Nodes of 4 MB below one, and questions about that."""
    sent = await ask(address, orjson.dumps({"key": "n", "id": "n"}), "/api/v1/content", ADMIN)
    for number in range(max(4, int(30 * scale))):
        node = {"key": f"n{number}", "parent": "n", "body": f"{number} " + "word and. " * (NODE_BYTES // 10)}
        sent += await ask(address, orjson.dumps(node), "/api/v1/content", ADMIN)
    for number in range(5):
        chat = make_chat(f"Which word {number}?", {"agent": "support", "content": "n"})
        sent += await ask(address, chat)
    sent += await ask(address, b"", "/api/v1/content?take=100", ADMIN, "GET")
    return sent + await ask(address, b"", "/api/v1/content/n?recursive=true", ADMIN, "DELETE")


async def store_knowledge(address: str, scale: float) -> int:
    """Entities with long properties, created and deleted again."""
    sent, path = 0, "/api/v1/knowledge/entities"
    ids = [f"e{number}" for number in range(max(20, int(300 * scale)))]
    for id in ids:
        entity = {"id": id, "type": "t", "name": id, "properties": {f"p{n}": "x" * 500 for n in range(20)}}
        sent += await ask(address, orjson.dumps(entity), path, ADMIN)
    for id in ids:
        sent += await ask(address, b"", f"{path}/{id}", ADMIN, "DELETE")
    return sent


async def sign_in_often(address: str, scale: float) -> int:
    """Sign-ins beyond what a key may have."""
    count = max(100, int(1000 * scale))
    return sum([await ask(address, b" " * 10_000, "/api/v1/sign-in", ADMIN) for _ in range(count)])


def make_chat(text: str, context: dict[str, object]) -> bytes:
    return orjson.dumps({"model": "m", "messages": [{"role": "user", "content": text}], "context": context})


FLOODS: dict[str, Flood] = {
    "trailers": send_trailers,
    "5 MB names": send_long_names,
    "5 MB questions": send_long_questions,
    "tiny chunks": send_tiny_chunks,
    "half heads": hold_half_heads,
    "half bodies": hold_half_bodies,
    "requests ahead": send_requests_ahead,
    "responses": store_responses,
    "messages": send_messages,
    "mcp": call_mcp,
    "nodes": store_nodes,
    "knowledge": store_knowledge,
    "sign-ins": sign_in_often,
}
