"""What a start loads, and how much memory a gateway takes that searches nothing."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway_processes import ROOT, GatewayProcess, configure, read_first_line, read_memory_mb

# Each belongs to a feature: search, links, documents, other stores, other upstreams, /metrics, long texts, the API.
HEAVY = {"aiohttp", "jinja2", "litellm", "numpy", "onnxruntime", "openai", "prometheus_client", "pypdf", "redis"}
HEAVY |= {"requests", "tiktoken", "tokenizers"}
# What requests may need: loaded after the gateway listens, the token counter's `regex` first.
LATE = {"starlette.applications", "starlette.requests", "starlette.responses", "gateway.site_composition"}
LATE |= {"gateway.edge.site", "gateway.edge.health", "gateway.edge.console", "gateway.edge.passthrough"}
LATE |= {"gateway.edge.cors", "gateway.edge.manage", "gateway.edge.mcp", "gateway.replay", "gateway.evaluation"}
RESIDENT_MB = 74  # scripts/bench holds it against the target of 70


@contextmanager
def serving(config: Path) -> Iterator[GatewayProcess]:
    """A gateway in one process that writes down what it imports."""
    command = [sys.executable, "-X", "importtime", "-m", "gateway", "serve", "--config", str(config)]
    with (config.parent / "stderr").open("w") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        said = read_first_line(process)
        assert "listens on" in said, (config.parent / "stderr").read_text()[-2000:]
        yield GatewayProcess(process, config.parent, said.rpartition(" ")[2].strip())
    finally:
        process.terminate()
        process.communicate(timeout=30)


def list_imported(running: GatewayProcess) -> set[str]:
    """The packages that were imported so far; one that was only looked for and not found is not among them."""
    return {name.partition(".")[0] for name in list_modules(running)}


def list_modules(running: GatewayProcess) -> list[str]:
    """The modules that were imported so far, in order."""
    lines = (running.directory / "stderr").read_text()
    return re.findall(r"^import time: .*\| +(\S+)$", lines, re.MULTILINE)


@pytest.mark.parametrize("changes", [{}, {"semantic": {"enabled": True}}], ids=["no search", "nothing to search"])
async def test_a_gateway_that_answers_has_loaded_only_what_it_uses(tmp_path: Path, changes: dict[str, Any]) -> None:
    with serving(configure(tmp_path, **changes)) as running:
        assert "Be kind." in await running.ask()
        assert list_imported(running) & HEAVY == set()
        assert {"gateway", "uvicorn", "pydantic"} <= list_imported(running)


async def test_what_a_start_does_not_need_is_loaded_once_the_gateway_listens(tmp_path: Path) -> None:
    with serving(configure(tmp_path)) as running:
        await running.ask()
        assert await running.metric("gateway_requests_total") == 1
        modules = list_modules(running)
        before = set(modules[: modules.index("regex._regex")])
        assert before & LATE == set()
        assert "gateway.worker" in before
        assert "starlette.applications" in modules


async def test_a_feature_loads_what_it_needs(tmp_path: Path) -> None:
    """The control: the list of imports shows what is loaded later."""
    with serving(configure(tmp_path)) as running:
        assert await running.metric("gateway_requests_total") == 0
        assert list_imported(running) & HEAVY == {"prometheus_client"}


async def test_a_gateway_that_searches_nothing_is_small(tmp_path: Path) -> None:
    with serving(configure(tmp_path)) as running:
        await running.ask()
        assert read_memory_mb(running.process.pid, "Rss") < RESIDENT_MB


def test_memory_is_read_as_the_kernel_counts_it() -> None:
    block = bytes(64 << 20)
    before = read_memory_mb(os.getpid(), "Private_Dirty")
    filled = bytearray(b"x" * len(block))
    assert 60 < read_memory_mb(os.getpid(), "Private_Dirty") - before < 80
    del filled
