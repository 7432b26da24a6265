"""Shared vectors while their server is silent, away or empty: nothing is lost for good, and nobody waits long."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import pytest
from redis_server import RedisServer, running_redis

from gateway.domain.redis_address import redis_address
from gateway.errors import StoreError
from gateway.stores import redis_vectors as module
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_vectors import RedisVectors


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as running:
        yield running


@pytest.fixture
async def store(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RedisVectors]:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr("gateway.stores.redis_connection.PROBE_SECONDS", 0.05)
    if not server.running:
        server.start()
    with server.client() as client:
        client.flushall()
    opened = await opened_on(server)
    yield opened
    server.thaw()
    await opened.close()


async def opened_on(server: RedisServer) -> RedisVectors:
    return RedisVectors(await RedisConnection.open(redis_address(server.url), budget=0.3))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110, what is awaited here is not ours to signal
            await asyncio.sleep(0.01)


def kept(server: RedisServer) -> int:
    with server.client() as client:
        return int(client.dbsize())


async def test_what_a_silent_server_does_not_take_is_kept_and_written_when_it_is_back(
    store: RedisVectors, server: RedisServer
) -> None:
    await store.put_many({b"a": b"1"})
    server.freeze()
    began = time.monotonic()
    for key in (b"b", b"c", b"d", b"e"):
        await store.put_many({key: b"2"})
    assert time.monotonic() - began < 2
    assert await store.get_many([b"b", b"e"]) == {b"b": b"2", b"e": b"2"}
    with pytest.raises(StoreError):
        await store.get_many([b"a"])
    server.thaw()
    await until(lambda: kept(server) == 5)
    other = await opened_on(server)
    assert set(await other.get_many([b"a", b"b", b"c", b"d", b"e"])) == {b"a", b"b", b"c", b"d", b"e"}
    await other.close()


async def test_a_server_that_was_killed_is_filled_again(store: RedisVectors, server: RedisServer) -> None:
    server.kill()
    await store.put_many({b"a": b"1"})
    server.start()
    await until(lambda: kept(server) == 1)
    assert await store.get_many([b"a"]) == {b"a": b"1"}


async def test_an_emptied_server_has_nothing_and_takes_everything_anew(
    store: RedisVectors, server: RedisServer
) -> None:
    await store.put_many({b"a": b"1"})
    with server.client() as client:
        client.flushall()
    assert await store.get_many([b"a"]) == {}
    await store.put_many({b"a": b"1"})
    assert await store.get_many([b"a"]) == {b"a": b"1"}


async def test_no_more_is_kept_back_than_memory_allows(
    store: RedisVectors, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BACK", 2)
    server.freeze()
    await store.put_many({b"a": b"1", b"b": b"1"})
    with pytest.raises(StoreError):
        await store.put_many({b"c": b"1"})


async def test_vectors_that_were_dropped_in_an_outage_would_be_noticed(
    store: RedisVectors, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: what could not be written is forgotten."""

    async def swallowed(self: RedisVectors, vectors: Mapping[bytes, bytes]) -> None:
        try:
            await self._write(vectors)
        except StoreError:
            return

    monkeypatch.setattr(RedisVectors, "put_many", swallowed)
    monkeypatch.setattr("test_vector_outage.until", lambda condition: asyncio.sleep(0.3))
    with pytest.raises(AssertionError):
        await test_a_server_that_was_killed_is_filled_again(store, server)
