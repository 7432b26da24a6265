"""Stored keys and policies while the Redis that holds them fails: chats know them all the same, and nothing is lost."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.domain.record import Author, RecordBatch, RecordKey, RecordWrite
from gateway.policies.workspace import StoredPolicies
from gateway.stores.protocols import RecordStore
from tests.support.gateway import Client, Thread, follow_store, running_gateway
from tests.support.redis_server import RedisServer, running_redis
from tests.support.upstream import Upstream, say, wait_for

RECOVERY = 6.0  # seconds
AUTHOR = Author("anna", "create")
SECRET = "cgw_a-key-of-the-tests"
SAYS = "Stored, not written in any file."
CONTEXT = {"resources": {"rule": {"type": "text", "data": {"content": SAYS}}}}


def write(kind: str, alias: str, data: dict[str, Any]) -> RecordWrite:
    return RecordWrite(RecordKey("default", kind, alias), orjson.dumps(data))


STORED = [
    write("contexts", "kept", CONTEXT),
    write("agents", "keeper", {"contexts": ["kept"]}),
    write("keys", "key-000000000001", {"name": "k", "sha256": sha256(SECRET.encode()).hexdigest(), "role": "chat"}),
]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def nodes(thread: Thread, scripted: Upstream, tmp_path: Path, server: RedisServer) -> Iterator[list[Client]]:
    """Two gateways that know a key, an agent and a context from Redis alone."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(running_gateway(thread, tmp_path / name, scripted.base_url, {}, store=server.url))
            for name in ("one", "two")
        ]
        for node in started:
            stack.enter_context(follow_store(node))
        thread.run(started[0].app.policies.commit(STORED, AUTHOR))
        wait_for(lambda: all("keeper" in node.app.policies.current.agents for node in started))
        yield started


class Traffic:
    """Chats on all nodes all the time; each has to succeed with what is stored."""

    def __init__(self, nodes: list[Client], upstream: Upstream) -> None:
        self.nodes, self.ended, self.answers = nodes, False, 0
        self.complaints: list[str] = []
        upstream.reset()
        upstream.will(*[say("Fine.")] * 20_000)

    async def run(self) -> None:
        await asyncio.gather(*(self._chat(node) for node in self.nodes))

    async def _chat(self, node: Client) -> None:
        while not self.ended:
            answer = await node.chat("Hello", agent="keeper", key=SECRET)
            self.answers += 1
            if answer.status != 200 or answer.headers["x-context-injected"] != "1":
                self.complaints.append(f"{answer.status} {answer.raw[:200]!r}")
            await asyncio.sleep(0.01)


async def freeze(server: RedisServer) -> None:
    server.freeze()
    await asyncio.sleep(2.5)
    server.thaw()


async def kill(server: RedisServer) -> None:
    server.kill()
    await asyncio.sleep(1.5)
    await asyncio.to_thread(server.start)  # without what it held


async def flush(server: RedisServer) -> None:
    await asyncio.to_thread(lambda: server.client().flushall())


async def flap(server: RedisServer) -> None:
    for _ in range(8):
        server.freeze()
        await asyncio.sleep(0.2)
        server.thaw()
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("fault", [freeze, kill, flush, flap])
async def test_chats_go_on_and_changes_soon_pass_again(
    fault: Callable[[RedisServer], Awaitable[None]], nodes: list[Client], scripted: Upstream, server: RedisServer
) -> None:
    traffic = Traffic(nodes, scripted)
    chatting = asyncio.create_task(traffic.run())
    await asyncio.sleep(0.2)
    await fault(server)
    mended = time.monotonic()
    await changed_everywhere(nodes, mended + RECOVERY)
    traffic.ended = True
    await chatting
    scripted.reset()
    assert traffic.complaints == []
    assert traffic.answers > 20
    held = {record.key.kind for record in (await asyncio.to_thread(stored, nodes[0])).records}
    assert held >= {"contexts", "agents", "keys"}, "the server holds again what the nodes hold"


async def changed_everywhere(nodes: list[Client], deadline: float) -> None:
    """A change made on one node is used by the other, both in time."""
    one, two = nodes
    change = write("prompts", "later", {"template": "{input}"})
    while True:
        try:
            await asyncio.to_thread(one.thread.run, one.app.policies.commit([change], AUTHOR))
            break
        except Exception:
            assert time.monotonic() < deadline, "no change could be stored in time"
            await asyncio.sleep(0.1)
    while "later" not in two.app.policies.current.prompts:
        assert time.monotonic() < deadline, "the other node did not hear of the change in time"
        await asyncio.sleep(0.02)


def stored(node: Client) -> Any:
    return node.thread.run(node.app.stores.records.load())


async def test_believing_an_emptied_server_would_be_noticed(
    nodes: list[Client], scripted: Upstream, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suite can fail: nodes that take an empty store for the truth lock everybody out."""

    async def believed(store: RecordStore, loaded: RecordBatch, known: StoredPolicies) -> RecordBatch:
        return loaded

    monkeypatch.setattr("gateway.policies.repository.restore_lost_records", believed)
    await flush(server)
    for node in nodes:
        await asyncio.to_thread(node.thread.run, node.app.policies.refresh())
    traffic = Traffic(nodes[:1], scripted)
    chatting = asyncio.create_task(traffic.run())
    await asyncio.sleep(0.2)
    traffic.ended = True
    await chatting
    scripted.reset()
    assert traffic.complaints != []


async def wait_for_a_chat_with_the_store(node: Client, upstream: Upstream) -> None:
    """A store has 100 ms to answer a chat; on a busy machine it may take a few chats until that is enough."""
    for _ in range(100):
        upstream.will(say("Fine."))
        answer = await node.chat("Hello", agent="keeper", key=SECRET)
        if "x-context-degraded" not in answer.headers:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("every chat says that the store does not answer, although it does")


async def test_every_chat_says_that_the_store_does_not_answer(
    nodes: list[Client], server: RedisServer, upstream: Upstream
) -> None:
    node = nodes[0]
    await wait_for_a_chat_with_the_store(node, upstream)
    upstream.will(say("Fine."))
    server.kill()
    await asyncio.to_thread(wait_for, lambda: node.app.policies.store_error is not None)
    answer = await node.chat("Hello", agent="keeper", key=SECRET)
    assert (answer.status, answer.headers["x-context-degraded"]) == (200, "store")
    await asyncio.to_thread(server.start)
    await asyncio.to_thread(wait_for, lambda: node.app.policies.store_error is None)
    await wait_for_a_chat_with_the_store(node, upstream)
