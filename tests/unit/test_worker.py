"""A process that is told to stop stops, whenever that is."""

import os
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from gateway.app import Gateway
from gateway.edge.server import GatewayServer
from gateway.settings import Settings
from gateway.worker import READY, answer_requests, drain_on_end


@pytest.mark.timeout(60)
async def test_a_signal_that_comes_before_the_server_listens_is_not_forgotten(tmp_path: Path) -> None:
    given = {"policies": str(tmp_path), "store": "memory:", "upstreams": {"demo": {"kind": "demo"}}}
    routes = [{"model": "*", "upstream": "demo"}]
    settings = Settings.model_validate({**given, "routes": routes, "listen": {"port": 0}})

    @asynccontextmanager
    async def stop_early(_: Gateway, server: GatewayServer) -> AsyncGenerator[None]:
        os.kill(os.getpid(), signal.SIGTERM)
        yield

    former = signal.getsignal(signal.SIGTERM)
    try:
        await answer_requests(settings, stop_early)
    finally:
        signal.signal(signal.SIGTERM, former)


@pytest.mark.parametrize("was_read", [True, False])
async def test_a_worker_drains_if_its_supervisor_is_killed_before_it_reads_that_it_is_ready(was_read: bool) -> None:
    """A socket that is closed with something unread ends with a reset instead of an end."""
    supervisor, worker = socket.socketpair()
    worker.setblocking(False)
    server = GatewayServer(uvicorn.Config("unused:app"))
    with worker, supervisor:
        worker.send(READY)
        if was_read:
            supervisor.recv(len(READY))
        supervisor.close()
        await drain_on_end(worker, server)
    assert server.should_exit
