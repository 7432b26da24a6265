"""Gateways whose passages and vectors lie on a Redis server: shared, and not missed when it is silent."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.semantic.index.redis_index import RedisIndex
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.redis_server import RedisServer, query_engine, running_redis
from tests.support.semantic_gateway import (
    ASKED,
    POLICIES,
    Embeddings,
    ask_and_list_injected,
    run_indexing,
    running_embeddings,
    wait_until_indexed,
    write_cosine_calibration,
)
from tests.support.upstream import Upstream, wait_for


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis(modules=[query_engine()]) as running:
        yield running


@pytest.fixture
def embeddings(thread: Thread) -> Iterator[Embeddings]:
    with running_embeddings(thread) as endpoint:
        yield endpoint


@pytest.fixture
def start(
    thread: Thread, scripted: Upstream, server: RedisServer, embeddings: Embeddings, tmp_path: Path
) -> Iterator[ExitStack]:
    scripted.reset()
    with ExitStack() as stack:
        yield stack
        server.thaw()


def started(
    stack: ExitStack, thread: Thread, upstream: Upstream, server: RedisServer, embeddings: Embeddings, folder: Path
) -> Client:
    semantic = {"embedder": embeddings.settings, "calibration": write_cosine_calibration(folder), "milliseconds": 5000}
    client = stack.enter_context(
        running_gateway(
            thread,
            folder,
            upstream.base_url,
            policies=POLICIES,
            store=server.url,
            semantic={**semantic, "index": "redis"},
        )
    )
    stack.enter_context(run_indexing(client))
    wait_until_indexed(client)
    wait_for(lambda: lookup(client).stored_index is not None)
    return client


def lookup(client: Client) -> RedisIndex:
    assert client.app.semantic is not None
    assert isinstance(client.app.semantic.lookup, RedisIndex)
    return client.app.semantic.lookup


async def test_a_question_is_answered_with_the_server_and_without_it_alike(
    start: ExitStack,
    thread: Thread,
    scripted: Upstream,
    server: RedisServer,
    embeddings: Embeddings,
    tmp_path: Path,
) -> None:
    client = started(start, thread, scripted, server, embeddings, tmp_path)
    answered, names = await ask_and_list_injected(client, scripted)
    assert (names, lookup(client).answered) == (["Voice", "Password"], 1)
    assert "x-context-degraded" not in answered.headers
    server.freeze()
    for asked in ("How can I reset a forgotten password?", "Reset the password of an account"):
        answered, names = await ask_and_list_injected(client, scripted, asked)
        assert names == ["Voice", "Password"]
        assert "x-context-degraded" not in answered.headers
    assert lookup(client).answered == 1
    server.thaw()
    lookup(client).options = replace(lookup(client).options, retry_seconds=0.05)
    wait_for(lambda: lookup(client).stored_index is not None)


async def test_a_second_gateway_embeds_only_questions(
    start: ExitStack, thread: Thread, scripted: Upstream, server: RedisServer, embeddings: Embeddings, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    started(start, thread, scripted, server, embeddings, folders[0])
    embeddings.texts.clear()
    second = started(start, thread, scripted, server, embeddings, folders[1])
    _, names = await ask_and_list_injected(second, scripted, ASKED)
    assert names == ["Voice", "Password"]
    assert embeddings.texts == ["warm up", ASKED]
