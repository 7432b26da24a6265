"""Keys on two nodes that have nothing in common but their store."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from gateway.commands.common import build_operator
from gateway.control.key_shape import KeySpec
from gateway.control.keys import CreatedKey, Keys
from gateway.edge.limits import CREDIT_SHARE
from gateway.stores.open import open_stores
from gateway.stores.redis_connection import RedisTimeouts
from tests.support.gateway import Client, Thread, follow_store, running_gateway
from tests.support.limits import with_limits
from tests.support.redis_server import RedisServer, running_redis
from tests.support.upstream import Upstream, say

BOTH_LIMITS = with_limits(loaded=20.0, quiet=2.0)  # seconds until a change is seen
PATIENCE = 30.0
# With less, a busy machine makes nodes count by themselves; how soon a silent server is given up is tested elsewhere.
PATIENT_REDIS = RedisTimeouts(call=5.0, body=5.0, background=10.0)
CONFIGURED = {"name": "fixed", "sha256": sha256(b"fixed").hexdigest()}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(params=["redis", "sqlite"])
def nodes(
    request: pytest.FixtureRequest,
    thread: Thread,
    scripted: Upstream,
    tmp_path: Path,
    server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[list[Client]]:
    server.client().flushall()
    monkeypatch.setattr("gateway.app.open_stores", partial(open_stores, redis_timeouts=PATIENT_REDIS))
    store = server.url if request.param == "redis" else f"sqlite:///{tmp_path / 'shared.db'}"
    with ExitStack() as stack:
        yield [
            stack.enter_context(follow_store(stack.enter_context(one)))
            for one in (
                running_gateway(thread, tmp_path / name, scripted.base_url, store=store, auth={"keys": [CONFIGURED]})
                for name in ("one", "two")
            )
        ]


def made(client: Client, **said: object) -> CreatedKey:
    keys = Keys(client.app.policies)
    return client.thread.run(keys.create(build_operator("default"), KeySpec.model_validate(said)))


async def status_of(client: Client, upstream: Upstream, key: str) -> int:
    upstream.reset()
    upstream.will(say("Done."))
    answer = await client.chat(key=key, agent="bare")
    upstream.reset()
    return answer.status


async def seconds_until(client: Client, upstream: Upstream, key: str, status: int) -> float:
    began = time.monotonic()
    while await status_of(client, upstream, key) != status:
        assert time.monotonic() - began < PATIENCE
        await asyncio.sleep(0.02)
    return time.monotonic() - began


@BOTH_LIMITS
async def test_what_one_node_grants_and_revokes_holds_on_the_other_within_two_seconds(
    nodes: list[Client], upstream: Upstream, limits: float
) -> None:
    one, two = nodes
    key = made(one)
    assert await status_of(one, upstream, key.secret) == 200
    assert await seconds_until(two, upstream, key.secret, 200) <= limits
    one.thread.run(Keys(one.app.policies).revoke(build_operator("default"), key.info.id))
    assert await status_of(one, upstream, key.secret) == 401
    assert await seconds_until(two, upstream, key.secret, 401) <= limits


async def test_nodes_share_the_limits_of_a_key(nodes: list[Client], upstream: Upstream) -> None:
    one, two = nodes
    key = made(one, limits={"requests": 4})
    await seconds_until(two, upstream, key.secret, 200)
    statuses = [await status_of(node, upstream, key.secret) for node in (one, two, one, two, one)]
    assert statuses == [200, 200, 200, 429, 429]


@pytest.mark.parametrize("settled", ["when the credit is used up", "by the job"])
async def test_two_nodes_under_load_exceed_a_limit_by_one_credit_at_most(
    nodes: list[Client], upstream: Upstream, settled: str
) -> None:
    one, two = nodes
    limit = 200
    key = made(one, limits={"requests": limit})
    await seconds_until(two, upstream, key.secret, 200)
    jobs = [asyncio.run_coroutine_threadsafe(node.app.limiter.run(), node.thread.loop) for node in nodes]
    if settled != "by the job":
        for job in jobs:
            job.cancel()
    upstream.will(*[say("Done.")] * 3 * limit)
    statuses: list[int] = []
    for _ in range(15):
        answers = await asyncio.gather(*(node.chat(key=key.secret, agent="bare") for node in nodes * 8))
        statuses += [answer.status for answer in answers]
    upstream.reset()
    for job in jobs:
        job.cancel()
    admitted = 1 + statuses.count(200)  # one was asked above
    assert limit <= admitted <= limit + (len(nodes) - 1) * (limit // CREDIT_SHARE)
    assert statuses.count(200) + statuses.count(429) == len(statuses)


async def test_without_redis_each_node_counts_by_itself_and_says_so(
    thread: Thread, scripted: Upstream, upstream: Upstream, tmp_path: Path, server: RedisServer
) -> None:
    limited = CONFIGURED | {"limits": {"requests": 2}}
    with running_gateway(thread, tmp_path, scripted.base_url, store=server.url, auth={"keys": [limited]}) as client:
        server.freeze()
        try:
            upstream.will(say("Done."), say("Done."))
            answers = [await client.chat(key="fixed", agent="bare") for _ in range(3)]
        finally:
            server.thaw()
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert [answer.headers.get("x-context-degraded") for answer in answers[:2]] == ["store", "store"]
