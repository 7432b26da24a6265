"""A real `gateway serve` in processes of its own, and what it says on stderr."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.upstream import wait_for

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60
TONE = "Be kind."
QUESTION = {"model": "demo", "messages": [{"role": "user", "content": "Which tone?"}]}


def policies(tone: str = TONE) -> dict[str, Any]:
    resources = {"tone": {"type": "text", "name": "Tone", "data": {"content": tone}}}
    return {"contexts": {"plain": {"default": True, "resources": resources}}}


def link_policies(url: str) -> dict[str, Any]:
    """A context with one external link, for the agent `linker`."""
    resources = {"page": {"type": "external-link", "data": {"url": url}}}
    return {"contexts": {"linked": {"resources": resources}}, "agents": {"linker": {"contexts": ["linked"]}}}


def configure(directory: Path, base_url: str = "http://127.0.0.1:9", link: str = "", **changes: Any) -> Path:
    """Write policies and a configuration with a demo model and, for `m-large`, a scripted one."""
    (directory / "policies").mkdir(exist_ok=True)
    (directory / "policies" / "all.yaml").write_text(yaml.safe_dump(policies()))
    if link:
        (directory / "policies" / "links.yaml").write_text(yaml.safe_dump(link_policies(link)))
    data = {
        "listen": {"port": 0},
        "policies": "policies",
        "store": "sqlite:///data.db",
        "upstreams": {"demo": {"kind": "demo"}, "scripted": {"kind": "openai", "base_url": base_url}},
        "routes": [{"model": "m-large", "upstream": "scripted"}, {"model": "*", "upstream": "demo"}],
        "semantic": {"enabled": False},
        "log": {"exchanges": False},
        "links": {"allow": ["127.0.0.1"]},
        **changes,
    }
    config = directory / "config.yaml"
    config.write_text(yaml.safe_dump(data))
    return config


@dataclass
class GatewayProcess:
    """A supervisor and its workers."""

    process: subprocess.Popen[str]
    directory: Path
    address: str = ""

    @property
    def log(self) -> list[dict[str, Any]]:
        lines = (self.directory / "stderr").read_text().splitlines()
        return [orjson.loads(line) for line in lines if line.startswith("{")]

    def said(self, pattern: str) -> list[tuple[float, re.Match[str]]]:
        """When and what the log says."""
        found = ((line, re.search(pattern, line.get("message", ""))) for line in self.log)
        return [(datetime.fromisoformat(line["time"]).timestamp(), match) for line, match in found if match]

    @property
    def workers(self) -> list[int]:
        """The processes that are alive."""
        started = [int(match[1]) for _, match in self.said(r"started as process (\d+)")]
        return [pid for pid in started if is_alive(pid)]

    async def ask(self, **headers: str) -> str:
        """One chat, as from a client that tries once more when a connection breaks."""
        named = {f"x-context-{name}": value for name, value in headers.items()}
        for attempt in (1, 2):
            try:
                return await self._ask(named)
            except aiohttp.ClientConnectionError:
                if attempt == 2:
                    raise
        raise AssertionError

    async def _ask(self, headers: dict[str, str]) -> str:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session,
            session.post(f"{self.address}/v1/chat/completions", json=QUESTION, headers=headers) as response,
        ):
            assert response.status == 200
            return str((await response.json())["choices"][0]["message"]["content"])

    async def metric(self, name: str) -> float:
        """The sum of a metric over its labels; of routes only chat, since asking for metrics is a request itself."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.address}/metrics") as response:
            text = await response.text()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        wanted = [sample for sample in samples if sample.name == name and sample.labels.get("route", "chat") == "chat"]
        return sum(sample.value for sample in wanted)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is gone and not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def read_memory_mb(pid: int, *kinds: str) -> float:
    """Memory of a process, such as Rss or Pss."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(
        int(size) / 1024 for kind, size in re.findall(r"^(\w+): +(\d+) kB$", lines, re.MULTILINE) if kind in kinds
    )


@contextmanager
def freeze_process(pid: int) -> Iterator[None]:
    """A worker that does nothing for a while, so that somebody else has to."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def spawn_gateway(config: Path, *arguments: str, module: str = "gateway") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, "serve", "--config", str(config), *arguments]
    with (config.parent / "stderr").open("w") as errors:
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)


def read_first_line(process: subprocess.Popen[str]) -> str:
    """What a process says first; one that says nothing for long is killed, and has said nothing."""
    assert process.stdout is not None
    too_late = threading.Timer(START_SECONDS, process.kill)
    too_late.start()
    try:
        return process.stdout.readline()
    finally:
        too_late.cancel()


@contextmanager
def running_workers(config: Path, workers: int = 2, module: str = "gateway") -> Iterator[GatewayProcess]:
    """Several workers that have all started."""
    process = spawn_gateway(config, "--workers", str(workers), module=module)
    running = GatewayProcess(process, config.parent)
    try:
        said = read_first_line(process)
        assert "listens on" in said, (config.parent / "stderr").read_text()
        running.address = said.rpartition(" ")[2].strip()
        wait_for(lambda: len(running.said("Application startup complete")) == workers, START_SECONDS)
        time.sleep(0.1)  # uvicorn says so a moment before it accepts
        yield running
    finally:
        process.terminate()
        process.communicate(timeout=START_SECONDS)
