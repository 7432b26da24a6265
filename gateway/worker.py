"""One process that answers requests: the only one, or one of several below a supervisor.

A supervisor configures its workers through standard input, so that settings with their secrets stand in no command line
and no file. A worker drains and stops when that input ends, which also happens if the supervisor is killed.
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
from gateway.edge.logs import log_as_json
from gateway.edge.server import build_server
from gateway.edge.worker_metrics import WorkerMetricsFiles
from gateway.errors import Faults, GatewayError, StoreError
from gateway.redaction import build_redactor
from gateway.settings import Settings

OK, FAULT = 0, 1
READY = b"ready\n"
START_POLL_SECONDS = 0.02

Announce = Callable[[str, int], None]  # host and port


class WorkerConfig(BaseModel):
    """What a supervisor tells a worker, as one line of JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int  # counts from 1 and is never used again
    settings: Settings
    sockets: list[int]  # descriptors that are already listening
    metrics_directory: Path


BackgroundWork = Callable[[Gateway, uvicorn.Server], AbstractAsyncContextManager[None]]


async def answer_requests(
    settings: Settings, background: BackgroundWork, sockets: list[socket.socket] | None = None
) -> int:
    """Serve until a signal comes, with `background` work beside it; returns an exit code."""
    gateway = await Gateway.open(settings)
    server: uvicorn.Server | None = None
    try:
        app = gateway.build_app(draining=lambda: server is not None and server.should_exit)
    except Faults:
        await gateway.close()
        raise
    server = build_server(app, settings)
    # After its drain uvicorn raises the signal once more; by then it has done its work.
    signal.signal(signal.SIGTERM, lambda *_: None)
    async with gateway.running(), background(gateway, server):
        await server.serve(sockets)
    return OK if server.started else FAULT


@asynccontextmanager
async def call_when_started(server: uvicorn.Server, callback: Callable[[], None]) -> AsyncGenerator[None]:
    """Call `callback` when the server listens."""

    async def wait() -> None:
        while not server.started:  # noqa: ASYNC110  (uvicorn offers no event to wait for)
            await asyncio.sleep(START_POLL_SECONDS)
        callback()

    waiting = asyncio.create_task(wait())
    try:
        yield
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def serve_alone(settings: Settings, announce: Announce) -> int:
    """Serve as the only process; returns an exit code. `announce` is called once the server listens."""

    @asynccontextmanager
    async def announce_address(_: Gateway, server: uvicorn.Server) -> AsyncGenerator[None]:
        def report() -> None:
            announce(*server.servers[0].sockets[0].getsockname()[:2])

        async with call_when_started(server, report):
            yield

    return await answer_requests(settings, announce_address)


async def run_worker(config: WorkerConfig) -> int:
    """Serve as one worker of several; returns an exit code."""
    files = WorkerMetricsFiles(config.metrics_directory)
    sockets = [socket.socket(fileno=descriptor) for descriptor in config.sockets]

    @asynccontextmanager
    async def save_metrics_and_watch_stdin(gateway: Gateway, server: uvicorn.Server) -> AsyncGenerator[None]:
        gateway.metrics.show_totals(files.read_totals)
        stopped = asyncio.Event()
        saving = asyncio.create_task(files.save_periodically(config.number, gateway.metrics.collect, stopped))
        watching = asyncio.create_task(drain_on_stdin_eof(server))
        try:
            async with call_when_started(server, report_ready):
                yield
        finally:
            watching.cancel()
            stopped.set()
            await asyncio.gather(saving, watching, return_exceptions=True)

    return await answer_requests(config.settings, save_metrics_and_watch_stdin, sockets)


def report_ready() -> None:
    """Tell the supervisor that requests are answered, and close the pipe to it."""
    os.write(sys.stdout.fileno(), READY)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


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
    """Run a worker that a supervisor started; returns an exit code."""
    # Unbuffered: nothing beyond the line may wait in a buffer when the event loop takes over the descriptor.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as stdin:
        config = WorkerConfig.model_validate_json(stdin.readline())
    try:
        with log_as_json(config.settings.log, build_redactor(config.settings)):
            return uvloop.run(run_worker(config))
    except Faults as faults:
        sys.stderr.write(f"{faults}\n")
    except (StoreError, GatewayError, OSError) as error:
        sys.stderr.write(f"gateway: {error}\n")
    return FAULT
