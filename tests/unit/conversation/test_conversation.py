"""Keep-alive comments while the client receives nothing."""

import asyncio

import pytest

from gateway.conversation.conversation import KEEPALIVE_COMMENT, SilenceTimer, send_comments_until


async def test_a_task_that_is_quick_needs_no_comment() -> None:
    task = asyncio.ensure_future(asyncio.sleep(0, "done"))
    assert [comment async for comment in send_comments_until(task, SilenceTimer(5.0))] == []
    assert task.result() == "done"


async def test_a_slow_task_is_waited_for_with_comments() -> None:
    task = asyncio.ensure_future(asyncio.sleep(0.1))
    comments = [comment async for comment in send_comments_until(task, SilenceTimer(0.01))]
    assert len(comments) >= 2
    assert set(comments) == {KEEPALIVE_COMMENT}
    assert task.done()


async def test_silence_adds_up_over_several_tasks() -> None:
    quiet, comments = SilenceTimer(0.05), 0
    for _ in range(20):
        task = asyncio.ensure_future(asyncio.sleep(0.01))
        comments += len([comment async for comment in send_comments_until(task, quiet)])
    assert comments >= 2


async def test_nobody_waiting_cancels_the_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(30))
    waiting = send_comments_until(task, SilenceTimer(0.01))
    assert await anext(waiting) == KEEPALIVE_COMMENT
    await waiting.aclose()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failure_is_left_to_whoever_asks_for_the_result() -> None:
    async def fail() -> None:
        raise ValueError("no")

    task = asyncio.ensure_future(fail())
    assert [comment async for comment in send_comments_until(task, SilenceTimer(5.0))] == []
    with pytest.raises(ValueError, match="no"):
        task.result()
