"""Many deadlines, one timer."""

import asyncio

from gateway.upstreams.deadlines import Deadlines
from tests.support.virtual_time import in_virtual_time


class Wait:
    """Something waited for, which notes when it failed."""

    def __init__(self) -> None:
        self.failures: list[float] = []

    def expire(self) -> None:
        self.failures.append(asyncio.get_running_loop().time())


@in_virtual_time
async def test_a_wait_fails_once_after_its_time() -> None:
    deadlines, wait = Deadlines(0.05), Wait()
    began = asyncio.get_running_loop().time()
    deadlines.start(wait)
    await asyncio.sleep(0.15)
    (ended,) = wait.failures
    assert 0.045 <= ended - began < 0.14


@in_virtual_time
async def test_a_wait_that_was_stopped_does_not_fail() -> None:
    deadlines, wait = Deadlines(0.02), Wait()
    deadlines.start(wait)
    deadlines.stop(wait)
    deadlines.stop(wait)
    await asyncio.sleep(0.05)
    assert wait.failures == []


@in_virtual_time
async def test_each_wait_has_its_whole_time_although_they_share_a_timer() -> None:
    deadlines, early, late = Deadlines(0.06), Wait(), Wait()
    began = asyncio.get_running_loop().time()
    deadlines.start(early)
    await asyncio.sleep(0.03)
    deadlines.start(late)
    await asyncio.sleep(0.15)
    assert 0.055 <= early.failures[0] - began < late.failures[0] - began
    assert late.failures[0] - began >= 0.085


@in_virtual_time
async def test_a_wait_that_begins_anew_is_put_off_behind_the_others() -> None:
    deadlines, renewed, other = Deadlines(0.06), Wait(), Wait()
    deadlines.start(renewed)
    deadlines.start(other)
    await asyncio.sleep(0.03)
    deadlines.start(renewed)
    await asyncio.sleep(0.045)
    assert (len(renewed.failures), len(other.failures)) == (0, 1)
    await asyncio.sleep(0.06)
    assert len(renewed.failures) == 1


@in_virtual_time
async def test_a_wait_after_a_pause_fails_in_time_too() -> None:
    deadlines, first, second = Deadlines(0.02), Wait(), Wait()
    deadlines.start(first)
    await asyncio.sleep(0.05)
    deadlines.start(second)
    await asyncio.sleep(0.05)
    assert (len(first.failures), len(second.failures)) == (1, 1)


@in_virtual_time
async def test_nothing_fails_after_the_close() -> None:
    deadlines, wait = Deadlines(0.02), Wait()
    deadlines.start(wait)
    deadlines.close()
    await asyncio.sleep(0.05)
    assert wait.failures == []
