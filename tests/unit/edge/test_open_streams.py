"""Streams that end with their keys, whatever else happens at that moment."""

import asyncio

import pytest

from gateway.domain.principal import ANONYMOUS
from gateway.edge.access import OpenStreams
from gateway.errors import InvalidApiKey


class CleanedStream:
    """A stream that never ends, and takes a while to clean up."""

    def __init__(self) -> None:
        self.started, self.may_end, self.cleaned = asyncio.Event(), asyncio.Event(), False

    async def run(self) -> None:
        try:
            self.started.set()
            await asyncio.Event().wait()
        finally:
            await self.may_end.wait()
            self.cleaned = True


async def test_a_stream_that_is_ending_is_not_cancelled_again() -> None:
    streams, stream = OpenStreams(), CleanedStream()
    task = asyncio.create_task(streams.pass_on(ANONYMOUS, stream.run()))
    await stream.started.wait()
    for _ in range(3):  # the key is gone, and then other records change
        streams.end_revoked(lambda _: True)
        await asyncio.sleep(0)
    stream.may_end.set()
    with pytest.raises(InvalidApiKey):
        await task
    assert stream.cleaned
    assert len(streams) == 0


async def test_a_client_that_leaves_is_no_revoked_key() -> None:
    streams, stream = OpenStreams(), CleanedStream()
    stream.may_end.set()
    task = asyncio.create_task(streams.pass_on(ANONYMOUS, stream.run()))
    await stream.started.wait()
    streams.end_revoked(lambda _: False)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(streams) == 0
