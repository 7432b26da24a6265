"""What a request takes, it gives back."""

import asyncio
import gc
import socket
import tracemalloc

from tests.support.gateway import Client, Start
from tests.support.upstream import Upstream, say

WARM_UP, REQUESTS, BYTES = 100, 400, 40  # per request: objects of connections that are about to end


async def ask(gateway: Client, upstream: Upstream, times: int) -> None:
    for number in range(times):
        upstream.will(say("Done."))
        answered = await gateway.chat(agent="editor", stream=number % 2 == 1)
        assert answered.text == "Done."
        upstream.reset()


async def test_a_request_leaves_nothing_behind(start: Start, upstream: Upstream) -> None:
    """The short form of `scripts/bench --soak`, which watches resident memory over 100,000 requests."""
    gateway = start(receipts={"enabled": False})  # the store of the tests keeps them in memory
    await ask(gateway, upstream, WARM_UP)
    gateway.app.recorder.drain()
    tracemalloc.start()
    try:
        before = measure_gateway()
        await ask(gateway, upstream, REQUESTS)
        await asyncio.sleep(0.1)
        gateway.app.recorder.drain()  # what it counts and logs later; here nobody asks for it
        grown = measure_gateway() - before
    finally:
        tracemalloc.stop()
    assert grown <= BYTES * REQUESTS


def measure_gateway() -> int:
    """Bytes that code of the gateway has allocated and not given back since tracing began."""
    gc.collect()
    taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/gateway/*")])
    return sum(one.size for one in taken.statistics("filename"))


async def test_a_connection_that_ends_leaves_no_task_behind(gateway: Client, upstream: Upstream) -> None:
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
    await asyncio.sleep(0.2)
    running = asyncio.all_tasks(gateway.thread.loop)
    assert not [task for task in running if "_answer" in str(task.get_coro())]
