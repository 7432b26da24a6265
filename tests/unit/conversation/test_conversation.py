"""Keep-alive comments while the client receives nothing."""

import asyncio
from typing import Any

import pytest

from gateway.conversation.conversation import SilenceTimer, send_comments_until
from gateway.conversation.dialects.chat.dialect import CHAT
from tests.support.client_requests import ListWriter


async def comments_until(task: asyncio.Future[Any], seconds: float) -> list[bytes]:
    client = ListWriter()
    await send_comments_until(task, SilenceTimer(seconds), client, CHAT.keepalive)
    return client.pieces


async def test_a_task_that_is_quick_needs_no_comment() -> None:
    task = asyncio.ensure_future(asyncio.sleep(0, "done"))
    assert await comments_until(task, 5.0) == []
    assert task.result() == "done"


async def test_a_slow_task_is_waited_for_with_comments() -> None:
    task = asyncio.ensure_future(asyncio.sleep(0.1))
    comments = await comments_until(task, 0.01)
    assert len(comments) >= 2
    assert set(comments) == {CHAT.keepalive}
    assert task.done()


async def test_silence_adds_up_over_several_tasks() -> None:
    quiet, client = SilenceTimer(0.05), ListWriter()
    for _ in range(20):
        task = asyncio.ensure_future(asyncio.sleep(0.01))
        await send_comments_until(task, quiet, client, CHAT.keepalive)
    assert len(client.pieces) >= 2


async def test_nobody_waiting_cancels_the_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(30))
    waiting = asyncio.ensure_future(comments_until(task, 0.01))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failure_is_left_to_whoever_asks_for_the_result() -> None:
    async def fail() -> None:
        raise ValueError("no")

    task = asyncio.ensure_future(fail())
    assert await comments_until(task, 5.0) == []
    with pytest.raises(ValueError, match="no"):
        task.result()
