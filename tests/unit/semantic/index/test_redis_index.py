"""Questions while the server that looks up passages is silent, emptied, slow, or has no query engine: same answers."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from gateway.domain.agent import SelectionSettings
from gateway.domain.redis_address import redis_address
from gateway.domain.search import SearchResult
from gateway.errors import StoreError
from gateway.semantic.index.redis_index import LookupOptions, RedisIndex
from gateway.semantic.index.redis_writer import WriterOptions
from gateway.semantic.search.sentences import split_query
from gateway.semantic.service import SemanticService
from gateway.settings import SemanticSettings
from gateway.stores.redis_connection import RedisConnection, RedisTimeouts
from gateway.stores.redis_passages import RedisPassages
from tests.support.redis_server import RedisServer, query_engine, running_redis
from tests.support.search_harness import (
    FakeEmbedder,
    make_factory,
    make_snapshot,
    open_memory_vectors,
    resource,
    run_service,
    wait_until,
    wait_until_indexed,
)

HELP = [resource(f"help{n % 4}/{n}", f"subject{n} of area{n % 9} and topic{n % 13}") for n in range(120)]
NAMES = [one.id for one in HELP]
QUESTION = "subject17 area8 topic4"
RIGHT = [("help1/17", "semantic")]


QUICK = LookupOptions(
    answer_seconds=1.0,
    poll_seconds=0.02,
    retry_seconds=0.05,
    writer=WriterOptions(wait_seconds=0.02, rewrite_seconds=0.0),
)


async def open_quick_lookup(store: str, index: str) -> RedisIndex | None:
    if index == "local":
        return None
    timeouts = RedisTimeouts(background=0.5, probe_interval=0.05)
    connection = await RedisConnection.open(redis_address(store), timeouts)
    return RedisIndex(connection, always=index == "redis", options=QUICK)


@pytest.fixture(scope="module")
def running() -> Iterator[RedisServer]:
    with running_redis(modules=[query_engine()]) as server:
        yield server


@pytest.fixture
def server(running: RedisServer) -> Iterator[RedisServer]:
    with running.client() as client:
        client.flushall()
    yield running
    running.thaw()


@asynccontextmanager
async def serving(server: RedisServer, index: str = "redis", model: str = "bag") -> AsyncGenerator[SemanticService]:
    def open_embedder(settings: SemanticSettings) -> FakeEmbedder:
        embedder = FakeEmbedder()
        embedder.id = model
        return embedder

    settings = SemanticSettings.model_validate({"milliseconds": 5000, "index": index})
    factory = make_factory(open_embedder, open_lookup=open_quick_lookup)
    service = SemanticService(settings, open_memory_vectors, server.url, factory)
    service.submit(make_snapshot(*HELP))
    async with run_service(service):
        await wait_until_indexed(service, 20)
        yield service


def looking(service: SemanticService) -> RedisIndex:
    assert isinstance(service.lookup, RedisIndex)
    return service.lookup


def serves(service: SemanticService) -> bool:
    assert service.indexer is not None
    return looking(service).stored_index is service.indexer.current


async def found(service: SemanticService, names: list[str] = NAMES) -> SearchResult:
    return await service.find("w", split_query(QUESTION), names, SelectionSettings())


def picked(one: SearchResult) -> list[tuple[str, str]]:
    assert (one.reason, one.pending) == (None, frozenset())
    return [(pick.resource, pick.via) for pick in one.picks]


async def test_the_server_looks_up_what_a_question_needs_and_the_answer_is_that_of_here(server: RedisServer) -> None:
    async with serving(server) as service, serving(server, "local") as alone:
        await wait_until(lambda: serves(service), 20)
        for names in (NAMES, NAMES[:40], ["help1/17", "help2/18"]):
            there, here = await found(service, names), await found(alone, names)
            assert picked(there) == picked(here) == RIGHT
            assert there.picks[0].score == pytest.approx(here.picks[0].score, abs=1e-4)
        assert looking(service).answered == 3
        assert alone.lookup is None


async def test_small_sets_are_looked_up_here_unless_the_server_is_asked_for(server: RedisServer) -> None:
    async with serving(server, "auto") as service:
        await wait_until(lambda: serves(service), 20)
        assert picked(await found(service)) == RIGHT
        assert looking(service).answered == 0
    with server.client() as client:
        assert client.dbsize() == 0


async def test_a_silent_server_costs_a_moment_and_no_answer(server: RedisServer) -> None:
    async with serving(server) as service:
        await wait_until(lambda: serves(service), 20)
        looking(service).options = replace(QUICK, answer_seconds=0.08)
        server.freeze()
        began = time.monotonic()
        for _ in range(5):
            assert picked(await found(service)) == RIGHT
        assert time.monotonic() - began < 5 * QUICK.answer_seconds - 0.5
        assert looking(service).error is not None
        assert service.lookup_counts == {("answered",): 0, ("failed",): 5}
        server.thaw()
        looking(service).options = QUICK
        await wait_until(lambda: serves(service), 20)
        before = looking(service).answered
        await asyncio.sleep(0.06)
        assert picked(await found(service)) == RIGHT
        assert (looking(service).answered, looking(service).error) == (before + 1, None)


async def test_an_emptied_server_is_filled_again(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(server) as service:
        await wait_until(lambda: serves(service), 20)
        with server.client() as client:
            client.flushall()
            assert picked(await found(service)) == RIGHT
            await wait_until(lambda: serves(service), 20)
            assert len(client.keys("gateway:near:*")) == len(HELP)
        await asyncio.sleep(0.06)
        assert picked(await found(service)) == RIGHT
        assert looking(service).answered == 1
    said = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert len([line for line in said if "looked up here" in line]) == 1
    assert len([line for line in said if "on the server again" in line]) == 1


async def test_without_a_query_engine_everything_is_looked_up_here_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_redis() as plain:
        async with serving(plain) as service:
            await wait_until(lambda: looking(service).error is not None, 20)
            assert picked(await found(service)) == RIGHT
            await asyncio.sleep(0.2)
            assert looking(service).answered == 0
    assert len([record for record in caplog.records if "looked up here" in record.message]) == 1


async def test_a_second_gateway_finds_the_index_there_and_writes_nothing(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(server) as first:
        await wait_until(lambda: serves(first), 20)

        async def refuse(self: RedisPassages, documents: object) -> None:
            raise AssertionError

        monkeypatch.setattr(RedisPassages, "put", refuse)
        async with serving(server) as second:
            await wait_until(lambda: serves(second), 20)
            for service in (first, second):
                assert picked(await found(service)) == RIGHT
                assert looking(service).answered == 1


async def test_an_edit_replaces_what_it_changed_and_nothing_else(server: RedisServer) -> None:
    async with serving(server) as service:
        await wait_until(lambda: serves(service), 20)
        with server.client() as client:
            before = set(client.keys("gateway:near:*"))
            edited = [resource("help0/0", "something else entirely"), *HELP[1:-1]]
            service.submit(make_snapshot(*edited))
            await wait_until_indexed(service, 20)
            await wait_until(lambda: serves(service), 20)
            after = set(client.keys("gateway:near:*"))
        assert (len(before - after), len(after - before)) == (2, 1)
        assert picked(await found(service, NAMES[:-1])) == RIGHT


async def test_an_index_that_nobody_has_used_for_a_month_is_forgotten(server: RedisServer) -> None:
    async with serving(server) as service:
        await wait_until(lambda: serves(service), 20)
    with server.client() as client:
        client.hset("gateway:near", mapping=dict.fromkeys(client.hkeys("gateway:near"), 1))
        async with serving(server, model="another model") as service:
            await wait_until(lambda: serves(service), 20)
        assert len(client.hkeys("gateway:near")) == 1
        assert len(client.keys("gateway:near:*")) == len(HELP)
        assert len(client.execute_command("FT._LIST")) == 1


async def test_a_failure_that_reached_the_question_would_be_noticed(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: what the server does not answer is an error of the question."""

    def passed_on(self: RedisIndex, error: StoreError) -> None:
        raise error

    monkeypatch.setattr(RedisIndex, "_give_up", passed_on)
    with pytest.raises((StoreError, ExceptionGroup)):
        await test_a_silent_server_costs_a_moment_and_no_answer(server)
