"""What documents of one workspace take from the others: their CPU time is charged, and the heaviest waits."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.extraction import extract
from gateway.extraction.extractor import Extractor
from gateway.extraction.formats import DocumentFormat
from gateway.fair_queue import CpuShares, FairQueue, FairThreads
from gateway.queue_bounds import CORE_BOUNDS
from gateway.settings import DocumentSettings
from gateway.work_threads import count_process_time

BURN = "import time\nwhile time.process_time() < 0.2: pass"


@pytest.fixture
def cores() -> FairQueue:
    return FairQueue(CORE_BOUNDS)


@pytest.fixture
def extractor(cores: FairQueue) -> Iterator[Extractor]:
    extractor = Extractor(DocumentSettings())
    extractor.charge_to(cores)
    yield extractor
    extractor.threads.close()


async def activate(cores: FairQueue, *workspaces: str) -> None:
    for name in workspaces:
        await cores.acquire(name)
        cores.release(name)


def get_used(shares: CpuShares, workspace: str) -> float:
    used, _ = shares._used.get(workspace, (0.0, 0.0))
    return used  # of a moment ago: it counts whole


async def test_the_cpu_time_of_a_sandbox_is_charged_to_its_workspace(monkeypatch, extractor, cores):
    monkeypatch.setattr(extract, "_build_command", lambda *_: [sys.executable, "-S", "-c", BURN])
    await extractor.extract("a", b"x", DocumentFormat.HTML)
    assert get_used(cores.shares, "a") >= 0.19  # it was measured after the first part of the interpreter's start


async def test_the_time_of_a_process_counts_for_the_work_that_waited_for_it_and_for_no_later_work():
    threads = FairThreads("test")
    try:
        await threads.run("a", count_process_time, 5.0)
        await threads.run("b", pow, 2, 5)  # in the same thread
        assert get_used(threads.queue.shares, "a") >= 5
        assert get_used(threads.queue.shares, "b") < 1
    finally:
        threads.close()


async def test_after_a_document_a_heavy_workspace_rests_three_times_as_long(monkeypatch, extractor, cores):
    rests: list[tuple[str, float]] = []
    release = extractor.threads.queue.release

    def note(name: str, rest: float) -> None:
        rests.append((name, rest))
        release(name)

    def parse(*arguments: object, **options: object) -> str:
        count_process_time(0.2)
        return ""

    monkeypatch.setattr(extractor.threads.queue, "release", note)
    monkeypatch.setattr("gateway.extraction.extractor.extract_content", parse)
    await activate(cores, "hostile", "honest")
    cores.shares.charge("hostile", 1000.0)
    for name in ("hostile", "honest", "honest"):  # the last one may not have been noted yet
        await extractor.extract(name, b"x", DocumentFormat.HTML)
    assert rests[:2] == [("hostile", pytest.approx(0.6, abs=0.2)), ("honest", 0.0)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such priority")
async def test_documents_of_a_heavy_workspace_are_parsed_while_nobody_else_needs_the_cpu(
    monkeypatch, tmp_path: Path, extractor, cores
):
    package = tmp_path / "gateway" / "extraction"
    package.mkdir(parents=True)
    lines = ["import os", "seen = os.sched_getscheduler(0)", "def main(arguments):", "    print(seen)"]
    (package / "sandbox.py").write_text("\n".join(lines))
    monkeypatch.setattr(extract, "_build_environment", lambda: {"PYTHONPATH": str(tmp_path)})
    await activate(cores, "hostile", "honest")
    cores.shares.charge("hostile", 1000.0)
    assert int(await extractor.extract("hostile", b"x", DocumentFormat.HTML)) == os.SCHED_IDLE
    assert int(await extractor.extract("honest", b"x", DocumentFormat.HTML)) == os.SCHED_OTHER


async def test_a_heavy_workspace_has_one_document_parsed_at_a_time_while_others_are_active(
    monkeypatch, extractor, cores
):
    gate, started, loop = threading.Event(), asyncio.Semaphore(0), asyncio.get_running_loop()
    running = []

    def parse(*arguments: object, **options: object) -> str:
        running.append(arguments)
        loop.call_soon_threadsafe(started.release)
        gate.wait(5)
        return ""

    monkeypatch.setattr("gateway.extraction.extractor.extract_content", parse)
    await activate(cores, "hostile", "honest")
    cores.shares.charge("hostile", 1000.0)
    asked = [asyncio.create_task(extractor.extract("hostile", b"x", DocumentFormat.HTML)) for _ in range(3)]
    await asyncio.sleep(0.05)
    assert len(running) == 1
    asked += [asyncio.create_task(extractor.extract("honest", b"x", DocumentFormat.HTML)) for _ in range(2)]
    async with asyncio.timeout(5):
        for _ in range(3):  # two of the honest workspace beside it
            await started.acquire()
    gate.set()
    await asyncio.gather(*asked)
    assert len(running) == 5
