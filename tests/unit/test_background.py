"""Jobs that end are started again."""

import asyncio
import contextlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.app import Gateway
from gateway.background import BackgroundJobs
from gateway.cancellation import end_task
from gateway.edge.health import describe_parts
from gateway.settings import Settings
from tests.support.upstream import wait_for


async def until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_for, condition, 10)


async def test_a_job_that_raises_or_returns_is_started_again_and_shown() -> None:
    jobs, starts = BackgroundJobs(first_delay=0.001), []

    async def raising() -> None:
        starts.append("raising")
        if starts.count("raising") == 1:
            raise LookupError("iso-8859-99")
        await asyncio.sleep(60)

    async def returning() -> None:
        starts.append("returning")

    jobs.add("raising", raising)
    jobs.add("returning", returning)
    async with jobs.running():
        await until(lambda: jobs.states["raising"].restarts == 1 and jobs.states["returning"].restarts > 2)
        await until(lambda: jobs.states["raising"].running)
        assert jobs.describe()["raising"] == {"running": True, "restarts": 1, "error": "LookupError('iso-8859-99')"}
        assert jobs.restarts[("raising",)] == 1


async def test_a_job_that_misses_its_cancellation_is_cancelled_again() -> None:
    """As redis-py takes one that comes together with a timeout for that timeout."""
    jobs, missed = BackgroundJobs(cancel_again=0.001), []

    async def deaf() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                missed.append(1)
                if len(missed) > 2:
                    raise

    jobs.add("deaf", deaf)
    async with asyncio.timeout(10), jobs.running():
        await until(lambda: jobs.states["deaf"].running)
    assert len(missed) == 3


async def test_a_job_that_never_ends_does_not_keep_the_gateway(caplog: pytest.LogCaptureFixture) -> None:
    jobs, may_end = BackgroundJobs(cancel_again=0.001), False

    async def deaf() -> None:
        while not may_end:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    jobs.add("deaf", deaf)
    async with asyncio.timeout(10), jobs.running():
        await until(lambda: jobs.states["deaf"].running)
    assert "the job 'deaf' does not end" in caplog.text
    may_end = True
    await end_task(jobs._tasks["deaf"], "it")


async def test_the_delay_grows_while_a_job_keeps_failing() -> None:
    jobs, starts = BackgroundJobs(first_delay=0.02), []

    async def failing() -> None:
        starts.append(asyncio.get_running_loop().time())
        raise ValueError

    jobs.add("failing", failing)
    async with jobs.running():
        await until(lambda: len(starts) == 4)
    first, second, third = (after - before for before, after in pairwise(starts))
    assert first >= 0.02
    assert second >= 0.04
    assert third >= 0.08


async def test_what_is_only_prepared_waits_until_the_gateway_listens() -> None:
    jobs, listening, done = BackgroundJobs(), asyncio.Event(), asyncio.Event()

    async def prepare() -> None:
        assert listening.is_set()
        done.set()

    jobs.add_once("prepare", prepare)
    async with jobs.running(listening):
        await asyncio.sleep(0)
        listening.set()
        await asyncio.wait_for(done.wait(), 10)


JOBS = {
    *("policy files", "stored policies", "knowledge graph", "retention", "receipts", "receipt retention"),
    *("statistics", "links", "tool servers", "request log", "limits", "content activity", "content index"),
    *("semantic search", "summaries"),
}


async def test_every_job_of_a_gateway_comes_back(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("contexts: {}\n")
    given = {"policies": str(tmp_path), "store": "memory:", "upstreams": {"demo": {"kind": "demo"}}}
    routes = [{"model": "*", "upstream": "demo"}]
    gateway = await Gateway.open(Settings.model_validate({**given, "routes": routes, "summaries": {"model": "demo"}}))
    gateway.jobs = jobs = BackgroundJobs(first_delay=0.001)
    async with gateway.running():
        await until(lambda: all(state.running for state in jobs.states.values()))
        assert jobs.states.keys() >= JOBS
        for name, state in jobs.states.items():
            jobs.cancel(name)
            await until(lambda state=state: state.restarts == 1 and state.running)  # type: ignore[misc]
        shown = describe_parts(gateway.policies, jobs.describe(), store_ok=True)["jobs"]
        assert {name: one["restarts"] for name, one in shown.items()} == dict.fromkeys(jobs.states, 1)
        (tmp_path / "p.yaml").write_text("contexts: {late: {}}\n")
        await until(lambda: "late" in gateway.policies.get_snapshot("default").contexts)
