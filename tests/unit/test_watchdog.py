"""A loop that stands still is noticed."""

import asyncio
import logging
import time

import pytest

from gateway.watchdog import LoopWatchdog


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


async def test_the_stack_of_a_loop_that_stands_still_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = LoopWatchdog(limit=0.1, interval=0.01)
    with caplog.at_level(logging.WARNING), watchdog.watching():
        await asyncio.sleep(0.05)
        stand_still(0.6)
        await asyncio.sleep(0.05)
        assert watchdog.stalls >= 1
    assert any("stand_still" in record.message for record in caplog.records)
    assert all("stood still for more than 100 ms" in record.message for record in caplog.records)


async def test_a_loop_that_runs_is_left_alone() -> None:
    watchdog = LoopWatchdog(limit=5, interval=0.01)
    with watchdog.watching():
        await asyncio.sleep(0.1)
    assert watchdog.stalls == 0
