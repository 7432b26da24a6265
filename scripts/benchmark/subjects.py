"""The servers that are measured: the gateway and the floors."""

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.benchmark import dialect_payloads, payloads
from scripts.benchmark.cells import TOKENS, Cell, Kind, Shape
from scripts.benchmark.processes import build_command, read_cpu_seconds, read_line, read_resident_bytes, run_process

CHAT = "/v1/chat/completions"
BEFORE = "before"  # the gateway of another checkout, measured in the same passes


@dataclass(frozen=True, slots=True)
class RequestRoute:
    """Where and how a subject is asked for one kind of treatment."""

    path: str = CHAT
    headers: tuple[tuple[str, str], ...] = ()
    model: str = "{}"  # how it wants a model to be named
    context: bool = False  # whether 4 KB are injected
    tools: bool = False  # whether tools are registered
    dialect: str = "chat"


@dataclass(frozen=True, slots=True)
class Subject:
    """A running server; `doors` says which kinds of requests it can serve."""

    name: str
    port: int
    pids: tuple[int, ...]
    doors: Mapping[Kind, RequestRoute]
    slowness: int = 1  # it gets so many times fewer requests, and none whose chunks are paced

    def serves(self, cell: Cell) -> bool:
        return cell.kind in self.doors and (self.slowness == 1 or cell.shape is not TOKENS)

    def request(self, kind: Kind, shape: Shape) -> bytes:
        """A request as it goes over the wire, with the headers that an SDK would send."""
        door = self.doors[kind]
        body = shape.body(door.model, door.dialect)
        headers = {
            "host": f"127.0.0.1:{self.port}",
            "content-type": "application/json",
            "accept": "application/json",
            "authorization": "Bearer sk-bench",
            "user-agent": "bench/1",
            "content-length": str(len(body)),
            **dict(door.headers),
        }
        lines = [f"POST {door.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True, slots=True)
class GatewayStart:
    """How a gateway came up."""

    seconds: float  # from the command until /livez answered
    cpu_seconds: float  # of its own in that time: what a busy machine does not change
    resident_mb: float  # after its first request, idle


@contextmanager
def run_upstream() -> Generator[int]:
    """The mock upstream's port."""
    with run_process(build_command("mock")) as process:
        yield int(read_line(process))


@contextmanager
def run_floor(upstream_port: int) -> Generator[Subject]:
    with run_process(build_command("floor", upstream_port)) as process:
        relay, inject = RequestRoute(f"/relay{CHAT}"), RequestRoute(f"/inject{CHAT}", context=True)
        doors = {Kind.RELAY: relay, Kind.INJECTED: inject, Kind.TOOLS: inject}
        yield Subject("floor", int(read_line(process)), (process.pid,), doors)


@contextmanager
def run_bare(upstream_port: int) -> Generator[Subject]:
    with run_process(build_command("bare", upstream_port)) as process:
        doors = {Kind.INJECTED: RequestRoute(context=True)}
        yield Subject("bare", int(read_line(process)), (process.pid,), doors)


@contextmanager
def run_gateway(
    upstream_port: int,
    directory: Path,
    *,
    name: str = "gateway",
    checkout: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> Generator[Subject]:
    """This gateway, or that of another checkout, with its defaults: only the upstream and the policies are given.

    `settings` are added to its configuration, `headers` to every request.
    """
    with run_gateway_process(write_config(upstream_port, directory, settings), checkout) as process:
        yield find_gateway(process, name, headers)


def run_gateway_process(
    config: Path, checkout: Path | None = None, program: tuple[str, ...] = ("-m", "gateway")
) -> AbstractContextManager[subprocess.Popen[str]]:
    """`gateway serve`, or another program with the same arguments, with the packages of a checkout."""
    python = sys.executable if checkout is None else str(checkout / ".venv/bin/python")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or checkout is None}
    # -P: neither the working directory nor that of the program hides a package.
    return run_process([python, "-P", *program, "serve", "--config", str(config), "--port", "0"], environ)


def find_gateway(
    process: subprocess.Popen[str], name: str = "gateway", headers: tuple[tuple[str, str], ...] = ()
) -> Subject:
    """A gateway that has just been started, as soon as it listens."""
    address = re.search(r":(\d+)$", read_line(process).strip())
    if address is None:
        raise RuntimeError("the gateway did not say where it listens")
    doors = {
        Kind.RELAY: RequestRoute(headers=headers),
        Kind.INJECTED: RequestRoute(headers=(*headers, name_agent("editor")), context=True),
        Kind.TOOLS: RequestRoute(headers=(*headers, name_agent("librarian")), context=True, tools=True),
    }
    return Subject(name, int(address[1]), (process.pid,), doors)


def name_agent(alias: str) -> tuple[str, str]:
    return ("x-context-agent", alias)


def write_config(upstream_port: int, directory: Path, settings: Mapping[str, Any] | None = None) -> Path:
    """A config and policies; both are written as JSON, which YAML is a superset of."""
    style = {"type": "text", "name": "House style", "data": {"content": payloads.CONTEXT}}
    glossary = {"type": "text", "name": "Glossary", "mode": "on_demand", "data": {"content": "A term is a word."}}
    policies = {
        "contexts": {"style": {"resources": {"house": style}}, "library": {"resources": {"glossary": glossary}}},
        "agents": {"editor": {"contexts": ["style"]}, "librarian": {"contexts": ["style", "library"]}},
    }
    config = {
        "upstreams": {"mock": {"kind": "openai", "base_url": f"http://127.0.0.1:{upstream_port}/v1"}},
        "routes": [{"model": "*", "upstream": "mock"}],
        **(settings or {}),
    }
    (directory / "policies").mkdir(parents=True, exist_ok=True)
    (directory / "policies" / "bench.yaml").write_text(json.dumps(policies))
    path = directory / "config.yaml"
    path.write_text(json.dumps(config))
    return path


def measure_start(upstream_port: int, directory: Path) -> GatewayStart:
    """Start a gateway, wait until it lives, ask it once, and look at what it holds."""
    began = time.perf_counter()
    with run_gateway(upstream_port, directory) as subject:
        fetch_json(subject, "GET", "/livez")
        seconds, cpu = time.perf_counter() - began, read_cpu_seconds(subject.pids)
        probe(subject, Kind.TOOLS)
        time.sleep(1)  # what it does in the background after it is up belongs to it
        return GatewayStart(seconds, cpu, read_resident_bytes(subject.pids[0]) / 2**20)


def probe(subject: Subject, kind: Kind) -> None:
    """Make sure that a request arrives upstream as its route says; raises RuntimeError if not."""
    door = subject.doors[kind]
    body = dialect_payloads.build_request(door.dialect, 1024, door.model.format(payloads.PROBE), stream=False)
    head = {"content-type": "application/json", **dict(door.headers)}
    said = dialect_payloads.read_text(fetch_json(subject, "POST", door.path, body, head))
    wanted = f"context={door.context} tools={door.tools}"
    if said != wanted:
        raise RuntimeError(f"{subject.name}, {kind.value}: the upstream should have seen {wanted}, but saw {said}")


def fetch_json(
    subject: Subject, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The JSON of one answer; raises RuntimeError unless it is a 200."""
    connection = http.client.HTTPConnection("127.0.0.1", subject.port, timeout=60)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{subject.name} answered {path} with {answer.status}: {data[:200]!r}")
    parsed: dict[str, Any] = json.loads(data)
    return parsed
