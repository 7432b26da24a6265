"""MCP over the pipes of a process, as the package's own transport, but with bounded messages.

Only the configuration names commands: nobody who writes policies can start a process.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from gateway.settings import ToolServerSettings
from gateway.tools.long_messages import LineLimiter

CHUNK_BYTES = 64 * 1024
GRACE_SECONDS = 2.0  # for a server to end after its input was closed, and once more after SIGTERM

ReadStream = MemoryObjectReceiveStream[SessionMessage | Exception]
WriteStream = MemoryObjectSendStream[SessionMessage]
Streams = tuple[ReadStream, WriteStream]


@asynccontextmanager
async def open_process(settings: ToolServerSettings, report_end: Callable[[], None]) -> AsyncGenerator[Streams]:
    """The streams of a server's process; `report_end` is called when it has closed its output."""
    process = await asyncio.create_subprocess_exec(
        *settings.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=get_default_environment() | settings.env,
        cwd=settings.cwd,
        start_new_session=True,
    )
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(receive_messages(process, incoming, report_end)),
        asyncio.create_task(send_messages(process, outgoing, incoming)),
    ]
    try:
        yield read_stream, write_stream
    finally:
        for stream in (read_stream, write_stream, incoming, outgoing):
            stream.close()
        for task in tasks:
            task.cancel()
        await asyncio.shield(stop_process(process))
        await asyncio.gather(*tasks, return_exceptions=True)


async def receive_messages(
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    report_end: Callable[[], None],
) -> None:
    """Pass on what the server writes, line by line; what is no message is an error for the session to report."""
    assert process.stdout is not None
    limiter = LineLimiter()
    with incoming, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        try:
            while data := await process.stdout.read(CHUNK_BYTES):
                for line in limiter.feed(data):
                    if line.strip():
                        await incoming.send(parse_message(line))
        finally:
            report_end()


def parse_message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def send_messages(
    process: asyncio.subprocess.Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None
    with outgoing, contextlib.suppress(anyio.ClosedResourceError):
        try:
            async for one in outgoing:
                process.stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()
        except OSError:
            incoming.close()  # the session sees that the connection has ended


async def stop_process(process: asyncio.subprocess.Process) -> None:
    """End a server as the protocol has it: close its input, wait, then end all that it has started."""
    if process.stdin is not None:
        process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
            break
    transport = getattr(process, "_transport", None)  # closes pipes that a child may still hold open
    if transport is not None:
        transport.close()
