"""Comments while the client hears nothing."""

import asyncio

import pytest

from gateway.conversation import keepalive
from gateway.conversation.keepalive import COMMENT, Silence, comments_until


async def test_a_task_that_is_quick_needs_no_comment():
    task = asyncio.ensure_future(asyncio.sleep(0, "done"))
    assert [comment async for comment in comments_until(task, Silence())] == []
    assert task.result() == "done"


async def test_a_slow_task_is_waited_for_with_comments(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keepalive, "SILENCE", 0.01)
    task = asyncio.ensure_future(asyncio.sleep(0.1))
    comments = [comment async for comment in comments_until(task, Silence())]
    assert len(comments) >= 2
    assert set(comments) == {COMMENT}
    assert task.done()


async def test_silence_adds_up_over_several_tasks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keepalive, "SILENCE", 0.05)
    quiet, comments = Silence(), 0
    for _ in range(20):
        task = asyncio.ensure_future(asyncio.sleep(0.01))
        comments += len([comment async for comment in comments_until(task, quiet)])
    assert comments >= 2


async def test_nobody_waiting_cancels_the_task(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keepalive, "SILENCE", 0.01)
    task = asyncio.ensure_future(asyncio.sleep(30))
    waiting = comments_until(task, Silence())
    assert await anext(waiting) == COMMENT
    await waiting.aclose()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failure_is_left_to_whoever_asks_for_the_result():
    async def fail() -> None:
        raise ValueError("no")

    task = asyncio.ensure_future(fail())
    assert [comment async for comment in comments_until(task, Silence())] == []
    with pytest.raises(ValueError, match="no"):
        task.result()
