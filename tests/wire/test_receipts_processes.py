"""Receipts of several workers on one file: what a killed one leaves, what its sibling keeps, and the command line."""

import asyncio
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
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from tests.support.gateway_processes import QUESTION, GatewayProcess, configure, running_workers
from tests.support.upstream import Gate, Upstream, say, wait_for

FLUSHED_SECONDS = 0.3  # 50 ms are promised, where nothing else wants the machine
SWEEP_SECONDS = 60.0  # lease and interval, on a busy machine

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process; its exit code and what it prints."""

    def command(config: Path, *words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = cli.main(["receipts", words[0], "--config", str(config), *words[1:]])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return command


@pytest.fixture(scope="module")
def config(scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return configure(tmp_path_factory.mktemp("receipts"), scripted.base_url)


@pytest.fixture(scope="module")
def gateway(config: Path) -> Iterator[GatewayProcess]:
    with running_workers(config, module="tests.support.short_leases") as running:
        yield running


async def ask(gateway: GatewayProcess, body: dict[str, Any]) -> str:
    """The id of the receipt of a chat."""
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120)) as session,
        session.post(f"{gateway.address}/v1/chat/completions", json=body) as response,
    ):
        await response.read()
        return response.headers["x-context-receipt"]


async def list_receipts(gateway: GatewayProcess, query: str = "") -> list[dict[str, Any]]:
    url = f"{gateway.address}/api/v1/receipts{query}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        items: list[dict[str, Any]] = (await response.json())["items"]
        return items


def make_gated(upstream: Upstream, count: int) -> list[Gate]:
    gates = [Gate() for _ in range(count)]
    upstream.will(*(say("Done.").but(before=(gate,)) for gate in gates))
    return gates


def count_unfinished(config: Path) -> dict[str, int]:
    """How many unfinished receipts each worker has, single ones and lists of one."""
    started = "SELECT boot FROM receipts WHERE status = 'started' UNION ALL SELECT boot FROM receipt_starts"
    with closing(sqlite3.connect(config.parent / "data-receipts.db")) as connection:
        rows = connection.execute(f"SELECT boot, count(*) FROM ({started}) GROUP BY boot")
        return dict(rows.fetchall())


async def test_what_a_killed_worker_leaves_is_swept_and_its_sibling_s_is_not(
    gateway: GatewayProcess, config: Path, upstream: Upstream
) -> None:
    question = {**QUESTION, "model": "m-large"}
    gates: list[Gate] = []
    asking: list[asyncio.Task[str]] = []
    while len(count_unfinished(config)) < 2:  # until both workers have one
        assert len(gates) < 40
        (gate,) = make_gated(upstream, 1)
        asking.append(asyncio.create_task(ask(gateway, question)))
        await asyncio.to_thread(gate.reached.wait, 10)
        gates.append(gate)
        await asyncio.sleep(0.2)
    begun = count_unfinished(config)
    os.kill(gateway.workers[0], signal.SIGKILL)

    def is_swept() -> bool:
        return len(asyncio.run(list_receipts(gateway, "?status=aborted"))) > 0

    await asyncio.to_thread(wait_for, is_swept, SWEEP_SECONDS)
    for gate in gates:
        gate.open()
    ended = await asyncio.gather(*asking, return_exceptions=True)
    answered = {id for id in ended if isinstance(id, str)}
    assert 0 < len(answered) < len(gates)

    def is_over() -> bool:
        return not asyncio.run(list_receipts(gateway, "?status=started"))

    await asyncio.to_thread(wait_for, is_over, SWEEP_SECONDS)
    finished = {one["id"] for one in await list_receipts(gateway, "?status=ok")}
    assert answered <= finished
    assert len(await list_receipts(gateway, "?status=aborted")) == sum(begun.values()) - len(answered)


async def test_what_was_answered_is_readable_after_kill_9(tmp_path: Path) -> None:
    config, file = configure(tmp_path), tmp_path / "data-receipts.db"

    def count_noted() -> int:
        with closing(sqlite3.connect(file)) as connection:
            return int(connection.execute("SELECT coalesce(sum(receipts), 0) FROM receipt_notes").fetchone()[0])

    with running_workers(config) as gateway:
        async with asyncio.timeout(20):  # what receipts have in common is known from the second batch on
            while not count_noted():
                await asyncio.gather(*(ask(gateway, QUESTION) for _ in range(20)))
                await asyncio.sleep(FLUSHED_SECONDS)
        noted = count_noted()
        ids = await asyncio.gather(*(ask(gateway, QUESTION) for _ in range(40)))
        await asyncio.sleep(FLUSHED_SECONDS)
        for pid in gateway.workers:
            os.kill(pid, signal.SIGKILL)
        in_lists = count_noted() - noted
        store = await SqliteReceiptStore.open(file)
        found = [await store.find("default", id) for id in ids]
        await store.close()
    assert [one and one.status for one in found] == ["ok"] * len(ids)
    assert in_lists > 0


async def test_the_command_line_lists_shows_exports_and_deletes(
    gateway: GatewayProcess, config: Path, run: Run
) -> None:
    id = await ask(gateway, {**QUESTION, "context": {"session": "from the command line"}})
    words = ("--session", "from the command line")
    listed: list[Any] = []

    def is_listed() -> bool:
        listed[:] = orjson.loads(run(config, "list", *words, "--status", "ok", "--json")[1])
        return bool(listed)

    await asyncio.to_thread(wait_for, is_listed)
    assert [one["id"] for one in listed] == [id]
    code, table = await asyncio.to_thread(run, config, "list", *words)
    head, row = table.splitlines()
    assert (code, head.split()[:4], row.split()[0]) == (0, ["id", "at", "status", "agent"], id)
    code, shown = await asyncio.to_thread(run, config, "show", id)
    assert code == 0
    assert "plain/tone [always, " in shown
    assert "1. demo: HTTP 200" in shown
    code, text = await asyncio.to_thread(run, config, "show", id, "--json")
    assert orjson.loads(text)["selection"]["injected"][0]["id"] == "plain/tone"
    code, _ = await asyncio.to_thread(run, config, "show", id, "--workspace", "other")
    assert code == 1
    assert (await asyncio.to_thread(run, config, "delete", id, "--workspace", "other"))[0] == 1
    assert await asyncio.to_thread(run, config, "delete", id) == (0, f"{id} is deleted.\n")
    assert (await asyncio.to_thread(run, config, "delete", id))[0] == 1
    assert await list_receipts(gateway, "?session=from%20the%20command%20line") == []


def test_an_export_is_json_lines(config: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["receipts", "export", "--config", str(config), "--from", "2020-01-01"]) == 0
    for line in capfdbinary.readouterr().out.splitlines():
        assert orjson.loads(line)["workspace"] == "default"


@pytest.mark.parametrize("words", [["list", "--from", "yesterday"], ["list", "--status", "fine"], ["show"]])
def test_a_wrong_word_is_a_usage_error(words: list[str], config: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["receipts", *words, "--config", str(config)])
    assert stop.value.code == 2


def test_a_store_that_does_not_last_is_refused(tmp_path: Path, run: Run) -> None:
    code, said = run(configure(tmp_path, store="memory:"), "list")
    assert (code, "memory:" in said) == (1, True)
