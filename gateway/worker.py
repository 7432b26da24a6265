"""One process that answers requests: the only one, or one of several below a supervisor.

A worker is connected to its supervisor by a channel. It drains and stops when that ends, which also happens if the
supervisor is killed.
"""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import uvloop

from gateway.app import Gateway
from gateway.edge.logs import log_as_json
from gateway.edge.server import GatewayServer, build_server
from gateway.edge.worker_metrics import WorkerMetricsFiles
from gateway.errors import Faults, GatewayError, StoreError
from gateway.redaction import build_redactor
from gateway.settings import Settings

OK, FAULT = 0, 1
READY = b"ready\n"
# Exchanges leave no cycles behind, but wait for the log and their receipts: with Python's own threshold of 700 objects,
# looking for garbage among them took a twelfth of the CPU. 20,000 objects are looked through in a millisecond.
GC_THRESHOLDS = (20_000, 10, 10)

Announce = Callable[[str, int, bool | None], None]  # host, port, whether callers need a key; None: nobody knows


class WorkerConfig(msgspec.Struct, frozen=True):
    """What a worker has from its supervisor."""

    number: int  # counts from 1 and is never used again
    settings: Settings
    listeners: list[socket.socket]
    metrics_directory: Path


BackgroundWork = Callable[[Gateway, GatewayServer], AbstractAsyncContextManager[None]]


async def answer_requests(
    settings: Settings, background: BackgroundWork, sockets: list[socket.socket] | None = None
) -> int:
    """Serve until a signal comes, with `background` work beside it; returns an exit code."""
    gc.freeze()  # what is loaded so far stays: the first look for garbage need not examine it
    gateway = await Gateway.open(settings)
    server: GatewayServer | None = None
    try:
        app = gateway.build_app(draining=lambda: server is not None and server.should_exit)
    except Faults:
        await gateway.close()
        raise
    server = build_server(app, settings)
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()  # a start has nothing to collect; it is switched off for that long
    # Before uvicorn has its own handler, whoever asks to stop must not be forgotten; after its drain it raises the
    # signal once more, when there is nothing left to do.
    signal.signal(signal.SIGTERM, partial(stop_server, server))
    async with gateway.running(server.listening), background(gateway, server):
        await server.serve(sockets)
    return OK if server.started else FAULT


def stop_server(server: GatewayServer, *_: object) -> None:
    """Let the server drain and end, or not even begin."""
    server.should_exit = True


@asynccontextmanager
async def call_when_started(server: GatewayServer, callback: Callable[[], object]) -> AsyncGenerator[None]:
    """Call `callback` when the server listens."""

    async def wait() -> None:
        await server.listening.wait()
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
    async def announce_address(gateway: Gateway, server: GatewayServer) -> AsyncGenerator[None]:
        def report() -> None:
            host, port, *_ = server.servers[0].sockets[0].getsockname()
            announce(host, port, gateway.auth.keyed)

        async with call_when_started(server, report):
            yield

    return await answer_requests(settings, announce_address)


async def run_worker(config: WorkerConfig, channel: socket.socket) -> int:
    """Serve as one worker of several; returns an exit code."""
    files = WorkerMetricsFiles(config.metrics_directory)

    @asynccontextmanager
    async def save_metrics_and_watch_channel(gateway: Gateway, server: GatewayServer) -> AsyncGenerator[None]:
        gateway.metrics.show_totals(files.read_totals)
        stopped = asyncio.Event()
        saving = asyncio.create_task(files.save_periodically(config.number, gateway.metrics.collect, stopped))
        watching = asyncio.create_task(drain_on_end(channel, server))
        try:
            async with call_when_started(server, lambda: channel.send(READY)):
                yield
        finally:
            watching.cancel()
            stopped.set()
            await asyncio.gather(saving, watching, return_exceptions=True)

    return await answer_requests(config.settings, save_metrics_and_watch_channel, config.listeners)


async def drain_on_end(channel: socket.socket, server: GatewayServer) -> None:
    """Drain once the supervisor ends the channel."""
    with suppress(ConnectionError):  # it was killed before it read that this worker is ready
        await asyncio.get_running_loop().sock_recv(channel, 1)
    server.should_exit = True


def serve_as_worker(config: WorkerConfig, channel: socket.socket) -> int:
    """Run a worker until it has drained; returns an exit code. `channel` must not block."""
    try:
        with log_as_json(config.settings.log, build_redactor(config.settings)):
            return uvloop.run(run_worker(config, channel))
    except Faults as faults:
        sys.stderr.write(f"{faults}\n")
    except (StoreError, GatewayError, OSError) as error:
        sys.stderr.write(f"gateway: {error}\n")
    return FAULT
