"""Whoever uses much more CPU time than the others gets it after them."""

import asyncio
import os
import sys
import threading
import time

import pytest

from gateway.fair_queue import FORGOTTEN, HALF_LIFE, LEAST_SECONDS, WAITING_SECONDS, CpuShares, FairQueue, FairThreads
from gateway.queue_bounds import BACKGROUND, CORE_BOUNDS, QueueBounds
from gateway.work_threads import NICENESS


def test_who_uses_much_more_than_the_average_is_heavy() -> None:
    now = [0.0]
    shares = CpuShares(clock=lambda: now[0])
    for _ in range(50):
        now[0] += 0.02
        shares.charge("hostile", 0.02)
        shares.charge("honest", 0.002)
    assert (shares.is_heavy("hostile", 2), shares.is_heavy("honest", 2)) == (True, False)
    assert not shares.is_heavy("hostile", 1)  # alone, nobody else needs it
    assert not shares.is_heavy("stranger", 3)


async def test_a_burst_is_heavy_before_it_has_used_anything_and_no_longer_once_it_is_over() -> None:
    cores = FairQueue(CORE_BOUNDS)
    threads = FairThreads("test", QueueBounds(places=1, each=1, waiting=100, spare=1))
    threads.share_cores(cores)
    cores.note_activity("honest")
    ended = threading.Event()
    burst = [asyncio.create_task(threads.run("hostile", ended.wait, 60)) for _ in range(20)]
    question = asyncio.create_task(threads.run("honest", ended.wait, 60))
    try:
        await asyncio.sleep(0)
        assert (cores.is_heavy("hostile"), cores.is_heavy("honest")) == (True, False)
        for task in burst[1:]:
            task.cancel()
        await asyncio.gather(*burst[1:], return_exceptions=True)
        assert not cores.is_heavy("hostile")
    finally:
        ended.set()
        await asyncio.gather(burst[0], question)
        threads.close()


def test_work_that_waits_counts_for_some_time_and_background_work_for_nobody() -> None:
    shares = CpuShares(clock=lambda: 0.0)
    pieces = int(LEAST_SECONDS / WAITING_SECONDS)
    shares.expect("hostile", pieces)
    shares.expect(BACKGROUND, 100)
    assert not shares.is_heavy("hostile", 2)
    shares.expect("hostile", 1)
    assert (shares.is_heavy("hostile", 2), shares.is_heavy("hostile", 1)) == (True, False)
    shares.expect("honest", pieces)
    assert not shares.is_heavy("hostile", 2)  # not 1.5 times as much
    shares.expect("honest", -pieces)
    shares.expect("hostile", -2)
    assert not shares.is_heavy("hostile", 2)


def test_equal_shares_are_nobodys_fault() -> None:
    shares = CpuShares(clock=lambda: 0.0)
    for name in ("a", "b", "c"):
        shares.charge(name, 1.0)
    assert not any(shares.is_heavy(name, 3) for name in ("a", "b", "c"))


def test_background_work_makes_nobody_lighter() -> None:
    shares = CpuShares(clock=lambda: 0.0)
    shares.charge(BACKGROUND, 10.0)
    shares.charge("hostile", 1.0)
    shares.charge("honest", 0.4)
    assert (shares.is_heavy("hostile", 2), shares.is_heavy("honest", 2)) == (True, False)


def test_what_was_used_long_ago_is_forgotten() -> None:
    now = [0.0]
    shares = CpuShares(clock=lambda: now[0])
    shares.charge("a", 1.0)
    shares.charge("b", 0.1)
    assert shares.is_heavy("a", 2)
    now[0] += 5 * HALF_LIFE
    assert not shares.is_heavy("a", 2)
    now[0] += 300 * HALF_LIFE  # numbers begin anew
    shares.charge("b", 2 * LEAST_SECONDS)
    shares.charge("a", 0.01)
    assert (shares.is_heavy("a", 2), shares.is_heavy("b", 2)) == (False, True)
    assert len(shares._used) == 2
    now[0] += (FORGOTTEN + 1) * HALF_LIFE
    shares.charge("c", 0.01)
    assert list(shares._used) == ["c"]


def burn(seconds: float) -> int:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return get_niceness()


def get_niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority belongs to the process")
async def test_heavy_and_background_work_yields_to_that_of_others() -> None:
    usual, bounds = get_niceness(), QueueBounds(places=3, each=2, waiting=10)
    threads, equal = FairThreads("test", bounds, yields=True), FairThreads("equal", bounds)
    try:
        for one in (threads, equal):
            assert await one.run("hostile", burn, 0.01) == usual
            assert await one.run("honest", burn, 0.001) == usual
            assert one.queue.shares.is_used  # what a thread does is charged
            one.queue.shares.charge("hostile", 1000.0)
        lowered = max(usual, NICENESS)
        assert await threads.run("hostile", get_niceness) == lowered
        assert await threads.run(BACKGROUND, get_niceness) == lowered
        assert await threads.run("honest", get_niceness) == usual
        assert await equal.run("hostile", get_niceness) == usual
    finally:
        threads.close()
        equal.close()
