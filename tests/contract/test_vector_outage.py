"""Shared vectors while their server is silent, down or empty: nothing is lost for good, and nobody waits long."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import pytest

from gateway.domain.redis_address import redis_address
from gateway.errors import StoreError
from gateway.stores.redis_connection import RedisConnection, RedisTimeouts
from gateway.stores.redis_vectors import RedisVectorStore
from tests.support.redis_server import RedisServer, running_redis

TIMEOUTS = RedisTimeouts(call=0.3, probe_interval=0.05)


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisServer]:
    with running_redis() as running:
        yield running


@pytest.fixture
def server(shared: RedisServer) -> Iterator[RedisServer]:
    """An empty server, whatever the test before did to it."""
    if not shared.running:
        shared.start()
    with shared.client() as client:
        client.flushall()
    yield shared
    shared.thaw()


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[RedisVectorStore]:
    opened = await open_store(server)
    yield opened
    server.thaw()
    await opened.close()


async def open_store(server: RedisServer, kind: type[RedisVectorStore] = RedisVectorStore) -> RedisVectorStore:
    connection = await RedisConnection.open(redis_address(server.url), TIMEOUTS)
    return kind(connection, retry_seconds=0.05, max_unsaved=4)


async def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110, what is awaited here is not ours to signal
            await asyncio.sleep(0.01)


def count_keys(server: RedisServer) -> int:
    with server.client() as client:
        return int(client.dbsize())


async def test_what_a_silent_server_does_not_take_is_kept_and_written_when_it_is_back(
    store: RedisVectorStore, server: RedisServer
) -> None:
    await store.put_many({b"a": b"1"})
    server.freeze()
    began = time.monotonic()
    for key in (b"b", b"c", b"d", b"e"):
        await store.put_many({key: b"2"})
    assert time.monotonic() - began < 8  # a few calls, and not until the server is back
    assert await store.get_many([b"b", b"e"]) == {b"b": b"2", b"e": b"2"}
    with pytest.raises(StoreError):
        await store.get_many([b"a"])
    server.thaw()
    await wait_until(lambda: count_keys(server) == 5)
    other = await open_store(server)
    assert set(await other.get_many([b"a", b"b", b"c", b"d", b"e"])) == {b"a", b"b", b"c", b"d", b"e"}
    await other.close()


async def check_refill(store: RedisVectorStore, server: RedisServer, seconds: float) -> None:
    server.kill()
    await store.put_many({b"a": b"1"})
    server.start()
    await wait_until(lambda: count_keys(server) == 1, seconds)
    assert await store.get_many([b"a"]) == {b"a": b"1"}


async def test_a_server_that_was_killed_is_filled_again(store: RedisVectorStore, server: RedisServer) -> None:
    await check_refill(store, server, 10)


async def test_an_emptied_server_has_nothing_and_takes_everything_again(
    store: RedisVectorStore, server: RedisServer
) -> None:
    await store.put_many({b"a": b"1"})
    with server.client() as client:
        client.flushall()
    assert await store.get_many([b"a"]) == {}
    await store.put_many({b"a": b"1"})
    assert await store.get_many([b"a"]) == {b"a": b"1"}


async def test_no_more_is_kept_unsaved_than_memory_allows(store: RedisVectorStore, server: RedisServer) -> None:
    server.freeze()
    await store.put_many({bytes([n]): b"1" for n in range(4)})
    with pytest.raises(StoreError):
        await store.put_many({b"c": b"1"})


class Forgetful(RedisVectorStore):
    """A mutant: what could not be written is forgotten."""

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        try:
            await self._write(vectors)
        except StoreError:
            return


async def test_vectors_that_were_dropped_in_an_outage_would_be_noticed(server: RedisServer) -> None:
    store = await open_store(server, Forgetful)
    with pytest.raises(TimeoutError):
        await check_refill(store, server, 0.3)
    await store.close()
