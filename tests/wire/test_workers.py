"""Several workers behind one address: real processes, real signals."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from gateway.cli import main
from gateway.edge.worker_metrics import SAVE_SECONDS
from tests.support.gateway import read
from tests.support.gateway_processes import (
    QUESTION,
    TONE,
    GatewayProcess,
    configure,
    freeze_process,
    is_alive,
    policies,
    read_memory_mb,
    running_workers,
    spawn_gateway,
)
from tests.support.limits import with_limits
from tests.support.redis_server import running_redis
from tests.support.upstream import Gate, Upstream, chunks, raw_events, sse, wait_for
from tests.support.web_pages import Pages, serving_pages

REQUESTS = "gateway_requests_total"


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    with serving_pages() as served:
        served["/rules"] = "Say please."
        yield served


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory, pages: Pages) -> Iterator[GatewayProcess]:
    with running_workers(configure(tmp_path_factory.mktemp("workers"), link=f"{pages.address}/rules")) as running:
        yield running


async def wait_for_metric(running: GatewayProcess, name: str, value: float, seconds: float = 5) -> float:
    """The metric once it has the value, or what it was last."""
    now = await running.metric(name)
    for _ in range(round(seconds * 10)):
        if now == value:
            break
        await asyncio.sleep(0.1)
        now = await running.metric(name)
    return now


async def read_settled_metric(running: GatewayProcess, name: str) -> float:
    """The metric once every worker has saved what it counted for the tests before."""
    former, now = -1.0, await running.metric(name)
    while former != now:
        await asyncio.sleep(1.5 * SAVE_SECONDS)
        former, now = now, await running.metric(name)
    return now


async def test_either_worker_answers_alone_and_either_shows_the_sum(workers: GatewayProcess) -> None:
    first, second = workers.workers
    before = await read_settled_metric(workers, REQUESTS)
    with freeze_process(first):
        assert "Be kind." in await workers.ask()
        await workers.ask()
        assert await wait_for_metric(workers, REQUESTS, before + 2) == before + 2
    with freeze_process(second):
        await asyncio.gather(*(workers.ask() for _ in range(5)))
        assert await wait_for_metric(workers, REQUESTS, before + 7) == before + 7
    with freeze_process(first):
        assert await wait_for_metric(workers, REQUESTS, before + 7) == before + 7
    assert await workers.metric("gateway_workers") == 2
    assert await workers.metric("gateway_request_seconds_count") == before + 7


async def test_a_killed_worker_is_replaced_and_what_it_counted_stays(workers: GatewayProcess) -> None:
    before, former = await read_settled_metric(workers, REQUESTS), workers.workers
    with freeze_process(former[1]):
        for _ in range(5):
            await workers.ask()
        assert await wait_for_metric(workers, REQUESTS, before + 5) == before + 5
    os.kill(former[0], signal.SIGKILL)
    await wait_until_replaced(workers, former[0])
    assert await workers.metric(REQUESTS) == before + 5
    with freeze_process(former[1]):
        assert "Be kind." in await workers.ask()


async def test_a_further_worker_shares_what_is_loaded(workers: GatewayProcess) -> None:
    for _ in range(10):
        await workers.ask()
    for worker in workers.workers:
        private = read_memory_mb(worker, "Private_Dirty", "Private_Clean")
        assert 5 < private < 40


def test_the_supervisor_forks_with_one_thread_only(workers: GatewayProcess) -> None:
    assert "Threads:\t1\n" in Path(f"/proc/{workers.process.pid}/status").read_text()


async def test_no_client_that_tries_again_notices_when_a_worker_is_killed(workers: GatewayProcess) -> None:
    victim = workers.workers[0]

    async def keep_asking(until: float) -> int:
        asked = 0
        while time.monotonic() < until:
            await workers.ask()
            asked += 1
        return asked

    asking = [asyncio.create_task(keep_asking(time.monotonic() + 2)) for _ in range(4)]
    await asyncio.sleep(0.5)
    os.kill(victim, signal.SIGKILL)
    assert sum(await asyncio.gather(*asking)) > 20
    await wait_until_replaced(workers, victim)


async def wait_until_replaced(running: GatewayProcess, victim: int) -> None:
    await asyncio.to_thread(wait_for, lambda: victim not in running.workers and len(running.workers) == 2)
    assert await wait_for_metric(running, "gateway_workers", 2, 30) == 2


def write_policies(running: GatewayProcess, tone: str) -> float:
    """Change the file and wait until every worker has read it; when the last one had."""
    seen = len(running.said("policies reloaded"))
    (running.directory / "policies" / "all.yaml").write_text(yaml.safe_dump(policies(tone)))
    wait_for(lambda: len(running.said("policies reloaded")) == seen + 2)
    return max(when for when, _ in running.said("policies reloaded"))


@with_limits(loaded=6.0, quiet=2.0)  # seconds
async def test_a_changed_policy_reaches_every_worker_within_two_seconds(workers: GatewayProcess, limits: float) -> None:
    changed = time.time()
    assert write_policies(workers, "Be brief.") - changed < limits
    for idle in workers.workers:
        with freeze_process(idle):
            assert "Be brief." in await workers.ask()
    write_policies(workers, TONE)


def test_sighup_makes_every_worker_read_the_policies_again(workers: GatewayProcess) -> None:
    seen = len(workers.said("policies reloaded"))
    workers.process.send_signal(signal.SIGHUP)
    wait_for(lambda: len(workers.said("policies reloaded")) == seen + 2)


async def refresh_page(running: GatewayProcess) -> None:
    refresh = f"{running.address}/api/v1/contexts/linked/resources/page/refresh"
    async with aiohttp.ClientSession() as session, session.post(refresh) as response:
        assert (response.status, (await response.json())["error"]) == (200, None)


@with_limits(loaded=10.0, quiet=3.0)  # seconds: two, and a little for asking
async def test_one_worker_asks_for_a_page_and_all_serve_it(
    workers: GatewayProcess, pages: Pages, limits: float
) -> None:
    await wait_until_each_says(workers, "Say please.")
    assert pages.asked == ["/rules"]
    pages["/rules"] = "Say thanks."
    await refresh_page(workers)
    refreshed = time.monotonic()
    await wait_until_each_says(workers, "Say thanks.")
    assert time.monotonic() - refreshed < limits
    assert pages.asked == ["/rules"] * 2
    pages["/rules"] = "Say please."
    await refresh_page(workers)
    pages.asked.pop()
    pages.asked.pop()


async def wait_until_each_says(running: GatewayProcess, text: str) -> None:
    """Wait until every worker answers with the text of the link."""
    for idle in running.workers:
        for _ in range(50):
            with freeze_process(idle):
                if text in await running.ask(agent="linker"):
                    break
            await asyncio.sleep(0.1)  # a frozen worker would not hear any news
        else:
            raise AssertionError(f"one worker does not say {text!r}")


async def test_sigterm_lets_a_running_stream_finish(tmp_path: Path, upstream: Upstream) -> None:
    gate = Gate()
    first, second, last = chunks({"content": "one "}, {"content": "two"}, {}, finish_reason="stop")
    upstream.will(raw_events([first, gate, second, last, sse(b"[DONE]")]))
    with running_workers(configure(tmp_path, upstream.base_url)) as running:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session,
            session.post(
                f"{running.address}/v1/chat/completions", json=QUESTION | {"model": "m-large", "stream": True}
            ) as response,
        ):
            await asyncio.to_thread(gate.reached.wait, 10)
            running.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(wait_for, lambda: is_refused(running.address))
            gate.open()
            answered = await read(response)
        assert (answered.text, answered.done, answered.broken) == ("one two", True, False)
        assert await asyncio.to_thread(running.process.wait, 10) == 0
        assert running.workers == []


def is_refused(address: str) -> bool:
    host, _, port = address.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        pass  # it is just about to close
    return False


async def test_workers_share_a_redis_server_and_end_with_their_supervisor(tmp_path: Path) -> None:
    with running_redis() as server, running_workers(configure(tmp_path, store=server.url)) as running:
        workers = running.workers
        for idle in workers:
            with freeze_process(idle):
                assert "Be kind." in await running.ask()
        running.process.kill()
        await asyncio.to_thread(wait_for, lambda: not any(map(is_alive, workers)))


async def test_a_worker_that_was_forked_later_keeps_no_other_alive(tmp_path: Path) -> None:
    with running_workers(configure(tmp_path)) as running:
        first, older = running.workers
        os.kill(first, signal.SIGKILL)
        await wait_until_replaced(running, first)
        (later,) = set(running.workers) - {older}
        with freeze_process(later):
            running.process.kill()
            await asyncio.to_thread(wait_for, lambda: not is_alive(older))
        await asyncio.to_thread(wait_for, lambda: not is_alive(later))


def test_what_is_wrong_with_the_policies_is_told_once(tmp_path: Path) -> None:
    config = configure(tmp_path)
    (tmp_path / "policies" / "all.yaml").write_text("agents: {editor: {contexts: [hous]}}")
    process = spawn_gateway(config, "--workers", "3")
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "")
    assert (tmp_path / "stderr").read_text().count("there is no context 'hous'") == 1


def test_an_address_that_is_taken_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--config", str(configure(tmp_path)), "--port", port, "--workers", "2"]) == 1
    assert capsys.readouterr().err.count("Address already in use") == 1


def test_workers_cannot_share_what_is_in_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--config", str(configure(tmp_path, store="memory:")), "--workers", "2"]) == 1
    assert "store: several workers cannot share a memory: store" in capsys.readouterr().err
