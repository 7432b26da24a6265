"""The clients: each sends a request, waits until it stands at its phase, and leaves."""

import asyncio
import socket
import struct
import time
from collections.abc import Iterable

import orjson

from scripts.disconnect_check.case import HAS_UPSTREAM, Case, Phase

REACH_SECONDS = 20.0  # in which a request has to reach its phase
CLOSE_SECONDS = 3.0  # at most, that an upstream connection is waited for; the report judges its delay
AT_ONCE = 24
SEARCHES_AT_ONCE = 4  # a workspace may search six times at once
SEARCHING = frozenset({Phase.PREPARE, Phase.TOOL})


async def run_cases(cases: Iterable[Case], port: int, patience: float) -> None:
    """All of them, some at a time."""
    places, searches = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(SEARCHES_AT_ONCE)

    async def run(case: Case) -> None:
        async with searches if case.phase in SEARCHING else places:
            await run_case(case, port, min(CLOSE_SECONDS, patience))

    async with asyncio.TaskGroup() as group:
        for case in cases:
            group.create_task(run(case))


async def run_case(case: Case, port: int, patience: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(REACH_SECONDS):
            await send_request(case, writer)
            await reach_phase(case, reader)
    except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
        case.error = f"did not reach its phase: {error!r}"
    case.left_at = time.monotonic()
    await leave(case, writer)
    if case.phase not in HAS_UPSTREAM:
        case.note_closed()  # there is nothing to be closed; a held search may go on
        return
    try:
        await asyncio.wait_for(case.closed.wait(), patience)
    except TimeoutError:
        case.error = case.error or f"the upstream was not closed within {patience:g} s"


async def send_request(case: Case, writer: asyncio.StreamWriter) -> None:
    agent = "searching" if case.phase is Phase.PREPARE else "plain"
    messages = [{"role": "user", "content": f"What about {case.name}?"}]
    body = orjson.dumps({"model": "m", "messages": messages, "stream": case.streams})
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nx-context-agent: {agent}\r\nx-context-session: {case.name}\r\n\r\n"
    )
    writer.write(head.encode() + (body[: len(body) // 2] if case.phase is Phase.BODY else body))
    await writer.drain()


async def reach_phase(case: Case, reader: asyncio.StreamReader) -> None:
    if case.phase is Phase.BODY:
        await asyncio.sleep(0.02)  # the gateway has read the head and waits for more
    elif case.phase is Phase.FINISH:
        await reader.readuntil(b"[DONE]" if case.streams else b'"Done."')
    else:
        await case.reached.wait()
    if case.phase is Phase.STREAM:
        await reader.readuntil(b"word ")


async def leave(case: Case, writer: asyncio.StreamWriter) -> None:
    """Close the connection, or reset it as a client does that was killed."""
    if case.resets:
        plug: socket.socket = writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)
