"""While somebody's question is being answered, heavy work does not start: for a while, and not all the time."""

import asyncio
import time

import pytest

from gateway import precedence
from gateway.fair_queue import FairQueue, FairThreads
from gateway.precedence import Precedence
from gateway.queue_bounds import BACKGROUND, QueueBounds

LONG = 3600.0


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Precedence:
    """One that waits for ever: what goes on has not waited."""
    monkeypatch.setattr(precedence, "PATIENCE", LONG)
    return Precedence(lambda name: name == "heavy")


async def test_heavy_work_starts_when_the_last_question_is_answered(questions: Precedence) -> None:
    with questions.answering("a"):
        with questions.answering("b"):
            waiting = asyncio.create_task(questions.let_pass("heavy"))
            await asyncio.sleep(0)
        assert questions.has_to_wait("heavy")
        await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 5)
    assert not questions.has_to_wait("heavy")


async def test_those_who_waited_go_on_one_by_one_and_leave_the_next_question_first(questions: Precedence) -> None:
    begun: list[int] = []

    async def begin(number: int) -> None:
        await questions.let_pass("heavy")
        begun.append(number)

    with questions.answering("a"):
        waiting = [asyncio.create_task(begin(number)) for number in range(12)]
        await asyncio.sleep(0)
    most = 0
    while len(begun) < 3:
        before = len(begun)
        await asyncio.sleep(0)
        most = max(most, len(begun) - before)
    assert most == 1
    with questions.answering("b"):
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(begun) < 8  # a few had been told to go on
    await asyncio.wait_for(asyncio.gather(*waiting), 5)
    assert begun == list(range(12))


async def test_nobody_else_waits_and_nobody_waits_for_the_heavy(questions: Precedence) -> None:
    with questions.answering("a"):
        await asyncio.wait_for(questions.let_pass("b"), 5)
    with questions.answering("heavy"):
        await asyncio.wait_for(questions.let_pass("heavy"), 5)


async def test_heavy_work_waits_for_four_fifths_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(precedence, "PATIENCE", 0.01)
    questions = Precedence(lambda name: name == "heavy", clock=lambda: now[0])
    with questions.answering("a"):
        waiting = asyncio.create_task(questions.let_pass("heavy"))
        await asyncio.sleep(0)
        now[0] += 0.1
        await asyncio.wait_for(waiting, 5)  # the question goes on, but it has waited long enough
        now[0] += 0.024
        assert not questions.has_to_wait("heavy")
        now[0] += 0.002
        assert questions.has_to_wait("heavy")


async def test_work_that_is_cancelled_while_it_waits_leaves_no_trace(questions: Precedence) -> None:
    with questions.answering("a"):
        waiting = asyncio.create_task(questions.let_pass("heavy"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not questions._waiting


async def test_a_question_that_fails_no_longer_counts(questions: Precedence) -> None:
    with pytest.raises(KeyError), questions.answering("a"):
        raise KeyError
    await asyncio.wait_for(questions.let_pass("heavy"), 5)


async def test_threads_do_not_begin_background_work_while_a_question_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precedence, "PATIENCE", LONG)
    bounds = QueueBounds(places=3, each=2, waiting=10)
    cores, threads = FairQueue(bounds), FairThreads("test", bounds)
    threads.share_cores(cores)
    ended: list[str] = []

    async def run(workspace: str) -> None:
        await threads.run(workspace, time.sleep, 0)
        ended.append(workspace)

    with threads.answering("a"):
        background = asyncio.create_task(run(BACKGROUND))
        await asyncio.sleep(0)
        await run("a")
        assert ended == ["a"]
    await asyncio.wait_for(background, 5)
    assert ended == ["a", BACKGROUND]
    threads.close()
