"""Figures of several workers on one file, one of which is killed, and the command line beside them."""

import asyncio
import csv
import io
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from gateway import cli
from tests.support.gateway_processes import QUESTION, GatewayProcess, configure, running_workers
from tests.support.recount import check, recount
from tests.support.upstream import Gate, Upstream, say, wait_for

REQUESTS = 60
SWEEP_SECONDS = 90.0  # lease and interval, on a busy machine

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process; its exit code and what it prints."""

    def command(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = cli.main(["stats", *words])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return command


@pytest.fixture(scope="module")
def config(scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return configure(tmp_path_factory.mktemp("stats"), scripted.base_url)


@pytest.fixture(scope="module")
def gateway(config: Path) -> Iterator[GatewayProcess]:
    with running_workers(config, module="tests.support.short_leases") as running:
        yield running


async def ask(gateway: GatewayProcess, session: str, model: str = "demo") -> None:
    headers = {"x-context-session": session}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120), headers=headers) as client,
        client.post(f"{gateway.address}/v1/chat/completions", json={**QUESTION, "model": model}) as response,
    ):
        await response.read()


async def fetch(gateway: GatewayProcess, path: str) -> bytes:
    async with aiohttp.ClientSession() as session, session.get(f"{gateway.address}/api/v1{path}") as response:
        assert response.status == 200, await response.text()
        return await response.read()


async def fetch_json(gateway: GatewayProcess, path: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(await fetch(gateway, path))
    return found


def count_waiting(config: Path) -> tuple[int, int]:
    """Receipts that are not finished, and those that are not counted, with the sheets of others."""
    with closing(sqlite3.connect(config.parent / "data-receipts.db")) as connection:
        (open_,) = connection.execute("SELECT count(*) FROM receipts WHERE status = 'started'").fetchone()
        (waiting,) = connection.execute("SELECT count(*) FROM uncounted").fetchone()
        (sheets,) = connection.execute("SELECT count(*) FROM uncounted_sheets").fetchone()
        return open_, waiting + sheets


async def test_workers_count_together_and_a_killed_one_loses_nothing(
    gateway: GatewayProcess, config: Path, upstream: Upstream, run: Run
) -> None:
    for first in range(0, REQUESTS, 10):
        await asyncio.gather(*(ask(gateway, f"s{number % 7}") for number in range(first, first + 10)))
    gates = [Gate() for _ in range(6)]
    upstream.will(*(say("Done.").but(before=(gate,)) for gate in gates))
    asking = [asyncio.create_task(ask(gateway, f"cut{number}", "m-large")) for number in range(6)]
    await asyncio.to_thread(wait_for, lambda: count_waiting(config)[0] == 6)
    os.kill(gateway.workers[0], signal.SIGKILL)
    await asyncio.sleep(0.2)
    for gate in gates:
        gate.open()
    await asyncio.gather(*asking, return_exceptions=True)
    await asyncio.to_thread(wait_for, lambda: count_waiting(config) == (0, 0), SWEEP_SECONDS)
    raw = [orjson.loads(line) for line in (await fetch(gateway, "/receipts/export")).splitlines()]
    assert len(raw) == REQUESTS + 6
    summary = await fetch_json(gateway, "/stats?sessions=true")
    resources = [
        await fetch_json(gateway, path) for path in ("/stats/resources?sessions=true", "/stats/contexts?sessions=true")
    ]
    check(summary, [item for page in resources for item in page["items"]], recount(raw))
    await asyncio.to_thread(check_commands, gateway, config, run, await fetch_json(gateway, "/stats"))


def check_commands(gateway: GatewayProcess, config: Path, run: Run, summary: dict[str, Any]) -> None:
    """The same from the file and from the gateway, as a table, as JSON and as CSV."""
    stored, remote = ("--config", str(config)), ("--url", gateway.address)
    for where in (stored, remote):
        code, printed = run(*where, "--json")
        assert (code, orjson.loads(printed)) == (0, summary)
        code, printed = run("resources", *where)
        head, *rows = printed.splitlines()
        assert (code, head.split()[:3]) == (0, ["name", "injected", "picked"])
        assert [row.split()[:2] for row in rows] == [["plain/tone", str(REQUESTS + 6)]]
        code, printed = run("models", *where, "--csv")
        assert sorted(row["name"] for row in csv.DictReader(io.StringIO(printed))) == ["demo", "m-large"]
        for view in ("contexts", "agents", "quality", "cache", "suggestions"):
            code, printed = run(view, *where)
            assert code == 0, printed
    assert run("--url", "http://127.0.0.1:9")[0] == 1
    assert run("--url", "file:///etc/hosts")[0] == 1
