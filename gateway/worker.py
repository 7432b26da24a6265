"""One process that answers requests: the only one, or one of several below a supervisor.

A supervisor tells its workers on standard input what to do, so that settings with their secrets stand in no command
line and no file. The end of that input is the sign to drain and stop, also when it comes because the supervisor was
killed.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import uvicorn
import uvloop
from pydantic import BaseModel, ConfigDict

from gateway.app import Gateway
from gateway.edge.logs import json_logging
from gateway.edge.server import build_server
from gateway.edge.worker_metrics import WorkerMetricsFiles
from gateway.errors import Faults, GatewayError, StoreError
from gateway.settings import Settings

OK, FAULT = 0, 1
READY = b"ready\n"


class WorkerConfig(BaseModel):
    """What a supervisor tells a worker, as one line of JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int  # counts from 1 and is never used again
    settings: Settings
    sockets: list[int]  # descriptors that are already listening
    shelf: Path  # the directory of the tallies


Beside = Callable[[Gateway, uvicorn.Server], AbstractAsyncContextManager[None]]


async def answer_requests(settings: Settings, beside: Beside, sockets: list[socket.socket] | None = None) -> int:
    """Serve until a signal comes, with what runs `beside` it; an exit status."""
    gateway = await Gateway.open(settings)
    server: uvicorn.Server | None = None
    try:
        app = gateway.router(draining=lambda: server is not None and server.should_exit)
    except Faults:
        await gateway.close()
        raise
    server = build_server(app, settings)
    # After its drain uvicorn raises the signal once more; by then it has done its work.
    signal.signal(signal.SIGTERM, lambda *_: None)
    async with gateway.running(), beside(gateway, server):
        await server.serve(sockets)
    return OK if server.started else FAULT


@asynccontextmanager
async def once_started(server: uvicorn.Server, tell: Callable[[], None]) -> AsyncGenerator[None]:
    """Call `tell` when the server listens."""

    async def wait() -> None:
        while not server.started:  # noqa: ASYNC110  (uvicorn offers no event to wait for)
            await asyncio.sleep(0.02)
        tell()

    waiting = asyncio.create_task(wait())
    try:
        yield
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def serve_alone(settings: Settings, told: Callable[[str, int], None]) -> int:
    """Serve as the only process; `told` gets the address once it listens."""

    @asynccontextmanager
    async def beside(_: Gateway, server: uvicorn.Server) -> AsyncGenerator[None]:
        def tell() -> None:
            told(*server.servers[0].sockets[0].getsockname()[:2])

        async with once_started(server, tell):
            yield

    return await answer_requests(settings, beside)


async def work(assignment: WorkerConfig) -> int:
    """Serve as one worker of several."""
    shelf = WorkerMetricsFiles(assignment.shelf)
    sockets = [socket.socket(fileno=descriptor) for descriptor in assignment.sockets]

    def ready() -> None:
        os.write(sys.stdout.fileno(), READY)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # closes the pipe; nothing more is told that way

    @asynccontextmanager
    async def beside(gateway: Gateway, server: uvicorn.Server) -> AsyncGenerator[None]:
        gateway.metrics.share(shelf.everyone)
        ended = asyncio.Event()
        keeping = asyncio.create_task(shelf.keep(assignment.number, gateway.metrics.tally, ended))
        obeying = asyncio.create_task(drain_on_stdin_eof(server))
        try:
            async with once_started(server, ready):
                yield
        finally:
            obeying.cancel()
            ended.set()
            await asyncio.gather(keeping, obeying, return_exceptions=True)

    return await answer_requests(assignment.settings, beside, sockets)


async def drain_on_stdin_eof(server: uvicorn.Server) -> None:
    """Drain once standard input ends."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        await reader.read()
        server.should_exit = True
    finally:
        transport.close()


def main() -> int:
    """A process that a supervisor started; an exit status."""
    # Unbuffered: nothing beyond the line may wait in a buffer when the event loop takes over the descriptor.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as told:
        assignment = WorkerConfig.model_validate_json(told.readline())
    try:
        with json_logging(assignment.settings.log):
            return uvloop.run(work(assignment))
    except Faults as faults:
        sys.stderr.write(f"{faults}\n")
    except (StoreError, GatewayError, OSError) as error:
        sys.stderr.write(f"gateway: {error}\n")
    return FAULT
