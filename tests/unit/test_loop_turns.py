"""Large bodies keep the event loop busy: a heavy workspace has one at a time, and nobody else waits."""

import asyncio

import pytest

from gateway.fair_queue import FairQueue
from gateway.loop_turns import BYTE_SECONDS, LoopTurns
from gateway.queue_bounds import CORE_BOUNDS

SIZE = 3_000_000


@pytest.fixture
def cores() -> FairQueue:
    return FairQueue(CORE_BOUNDS)


@pytest.fixture
def rests(cores: FairQueue, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long workspaces had to rest; those rests last until the test ends them."""
    noted: list[float] = []
    compute = FairQueue.compute_rest

    def note(queue: FairQueue, workspace: str, seconds: float) -> float:
        rest = compute(queue, workspace, seconds)
        noted.append(rest)
        return 3600.0 if rest else 0.0

    monkeypatch.setattr(FairQueue, "compute_rest", note)
    return noted


async def test_a_workspace_alone_never_waits_however_much_it_sends(cores: FairQueue, rests: list[float]) -> None:
    turns = LoopTurns(cores)
    async with asyncio.timeout(60):
        await asyncio.gather(*(turns.take("busy", SIZE) for _ in range(500)))
    assert rests == [0.0] * 500


async def test_a_heavy_workspace_has_one_large_body_at_a_time_and_others_go_on(
    cores: FairQueue, rests: list[float]
) -> None:
    turns = LoopTurns(cores)
    cores.note_activity("honest")
    cores.shares.charge("hostile", 1000.0)
    async with asyncio.timeout(60):
        await turns.take("hostile", SIZE)
        waiting = [asyncio.create_task(turns.take("hostile", SIZE)) for _ in range(2)]
        for _ in range(50):
            await turns.take("honest", SIZE)
        assert not any(task.done() for task in waiting)
        assert rests == [pytest.approx(3 * SIZE * BYTE_SECONDS), *[0.0] * 50]
        for task in waiting:  # the longer one waits the fewer are before it: none is refused
            turns._queue._end_use("hostile")
            await task


async def test_what_large_bodies_take_of_the_loop_makes_a_workspace_heavy(cores: FairQueue) -> None:
    turns = LoopTurns(cores)
    cores.note_activity("honest")
    assert not cores.is_heavy("hostile")
    await turns.take("hostile", int(10 / BYTE_SECONDS))
    assert cores.is_heavy("hostile")
