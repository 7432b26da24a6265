"""Gateways with tools of MCP servers: their policies, their connections, and servers over HTTP."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gateway.tools.connection import ConnectionTimings
from tests.support.gateway import Client

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
QUICK = ConnectionTimings(connect=START_SECONDS, probe=2, refresh=0.3, between=0.1, longest=1.0)


def run_server(*arguments: str, module: str = "tool_server", **settings: Any) -> dict[str, Any]:
    """The configuration of a server over stdio; on a busy machine it takes long to import what it needs."""
    env = {"PYTHONPATH": str(ROOT), **settings.pop("env", {})}
    command = [sys.executable, "-m", f"tests.support.{module}", *arguments]
    return {"command": command, "env": env, "connect_seconds": START_SECONDS, **settings}


def run_plain_server(**settings: Any) -> dict[str, Any]:
    """The same tools from a server that starts at once."""
    return run_server(module="plain_tool_server", **settings)


def server(name: str = "files", **more: Any) -> dict[str, Any]:
    """A resource that stands for a configured server."""
    data = {"server": name, **more.pop("data", {})}
    return {"type": "mcp-server", **more, "data": data}


@contextmanager
def connected(client: Client) -> Iterator[Client]:
    """The gateway with its connections to servers, as its background job keeps them."""
    servers, policies, recorder = client.app.tool_servers, client.app.policies, client.app.pipeline.receipts
    servers.timings = QUICK
    ended = asyncio.Event()

    async def run_jobs() -> None:
        jobs = [asyncio.create_task(servers.run(policies.update_tools))]
        if recorder is not None:
            jobs.append(asyncio.create_task(recorder.run()))
        await ended.wait()
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    running = asyncio.run_coroutine_threadsafe(run_jobs(), client.thread.loop)
    try:
        yield client
    finally:
        client.thread.loop.call_soon_threadsafe(ended.set)
        running.result(20)


def wait_until(true: Any, seconds: float = 2 * START_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def has_tool(client: Client, identity: str, workspace: str = "default") -> bool:
    return identity in client.app.policies.get_snapshot(workspace).resources


def wait_for_tool(client: Client, identity: str, workspace: str = "default") -> None:
    """Return once policies know a tool of a server."""
    wait_until(lambda: has_tool(client, identity, workspace))


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as plug:
        return int(plug.getsockname()[1])


@contextmanager
def http_server(form: str = "", port: int = 0) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A server over streamable HTTP in a process of its own."""
    port = port or find_port()
    made = run_server(str(port), *([form] if form else []))
    environ = {"PATH": os.environ["PATH"], **made["env"]}
    process = subprocess.Popen(made["command"], env=environ, cwd=ROOT)
    try:
        wait_until(lambda: is_open(port))
        yield port, process
    finally:
        process.kill()
        process.wait(10)


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
