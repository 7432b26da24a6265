"""A gateway with two tenants, a mock upstream and a web server that nobody should link to, all on loopback."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from scripts.benchmark.processes import build_command, read_line, run_process

HONEST, HOSTILE = "honest", "hostile"
MODELS = {HONEST: "m", HOSTILE: "h"}  # each has an upstream of its own: what it costs that one is not the gateway's
TOPICS = ("returns", "delivery", "invoices", "warranty", "passwords", "gift cards", "spare parts", "battery", "refunds")
ACTIONS = ("change", "cancel", "find", "repair", "explain", "order")
READY_SECONDS = 120.0
TRICKLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Stage:
    """Where everything listens."""

    gateway: str
    web: str
    processes: tuple[int, ...]  # of the gateway and its upstreams


def make_resources(owner: str) -> dict[str, Any]:
    """What a tenant's assistant can find."""
    return {
        f"{topic.replace(' ', '-')}-{action}": {
            "type": "text",
            "mode": "semantic",
            "description": f"How to {action} {topic}",
            "data": {"content": f"Customers of {owner} who want to {action} {topic} call extension {number}. " * 3},
        }
        for number, (topic, action) in enumerate((topic, action) for topic in TOPICS for action in ACTIONS)
    }


def make_bundle(owner: str) -> dict[str, Any]:
    voice = {"type": "text", "mode": "always", "data": {"content": f"You speak for {owner}."}}
    return {
        "contexts": {"help": {"resources": {"voice": voice, **make_resources(owner)}}},
        "agents": {"support": {"contexts": ["help"]}},
    }


def write_config(directory: Path, upstreams: Mapping[str, int]) -> Path:
    """The configuration; `upstreams` are ports by tenant."""
    (directory / "policies").mkdir()
    keys = [
        {"name": f"{name}-{role}", "sha256": sha256(f"{name}-{role}".encode()).hexdigest(), "workspace": name} | rights
        for name in (HONEST, HOSTILE)
        for role, rights in (("chat", {"role": "chat"}), ("admin", {"role": "admin"}))
    ]
    config = {
        "listen": {"port": 0},
        "policies": "policies",
        "store": "sqlite:///data.db",
        "upstreams": {
            name: {"kind": "openai", "base_url": f"http://127.0.0.1:{port}/v1"} for name, port in upstreams.items()
        },
        "routes": [{"model": MODELS[name], "upstream": name} for name in upstreams],
        "auth": {"keys": keys},
        "links": {"allow": ["127.0.0.1"]},
        "log": {"exchanges": False, "level": "error"},
    }
    path = directory / "config.yaml"
    path.write_text(orjson.dumps(config).decode())  # JSON is YAML
    return path


@contextmanager
def run_gateway(directory: Path, web: str) -> Generator[Stage]:
    """A gateway in front of a mock for each tenant."""
    with run_process(build_command("mock")) as mock, run_process(build_command("mock")) as other:
        config = write_config(directory, {HONEST: int(read_line(mock)), HOSTILE: int(read_line(other))})
        with run_process([sys.executable, "-m", "gateway", "serve", "--config", str(config)]) as gateway:
            line = read_line(gateway)
            address = next(word for word in line.split() if word.startswith("http://")).rstrip("/.,")
            yield Stage(address, web, (gateway.pid, mock.pid, other.pid))


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A page that never ends, one line at a time."""
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n")
        while True:
            writer.write(b"<p>wait\n")
            await writer.drain()
            await asyncio.sleep(TRICKLE_SECONDS)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
        writer.close()  # also at the end of the run, when whoever still waits is cancelled


@asynccontextmanager
async def open_stage(directory: Path) -> AsyncGenerator[Stage]:
    """Everything started, both tenants' policies stored and indexed."""
    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    web = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with run_gateway(directory, web) as stage:
        address = stage.gateway
        async with aiohttp.ClientSession() as session:
            for name in (HONEST, HOSTILE):
                await import_bundle(session, address, name)
            await wait_until_found(session, address)
        try:
            yield stage
        finally:
            server.close()


async def import_bundle(session: aiohttp.ClientSession, address: str, name: str) -> None:
    headers = {"authorization": f"Bearer {name}-admin", "content-type": "application/json"}
    body = orjson.dumps(make_bundle(name))
    async with session.post(f"{address}/api/v1/import", data=body, headers=headers) as reply:
        if reply.status != 200:
            raise RuntimeError(f"the policies of {name} were refused: {await reply.text()}")


async def wait_until_found(session: aiohttp.ClientSession, address: str) -> None:
    """Return once semantic search finds what the honest tenant has stored."""
    async with asyncio.timeout(READY_SECONDS):
        while True:
            body = {"model": MODELS[HONEST], "messages": [{"role": "user", "content": "How do I cancel gift cards?"}]}
            headers = {"authorization": f"Bearer {HONEST}-chat", "x-context-agent": "support"}
            async with session.post(f"{address}/v1/chat/completions", json=body, headers=headers) as reply:
                await reply.read()
                found = int(reply.headers.get("x-context-injected", "0"))
                if reply.status == 200 and found > 1 and not reply.headers.get("x-context-degraded"):
                    return
            await asyncio.sleep(0.2)
