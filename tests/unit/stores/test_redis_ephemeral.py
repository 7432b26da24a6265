"""Redis behind its timeouts and its breaker, with a real server that freezes, dies and comes back."""

import asyncio
import random
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterator

import pytest
from redis.asyncio import SSLConnection

from gateway.domain.redis_address import redis_address
from gateway.errors import StoreError
from gateway.stores.open import open_stores
from gateway.stores.redis_connection import MAX_CONNECTIONS, RedisTimeouts, build_pool
from gateway.stores.redis_ephemeral import RedisEphemeralStore
from tests.support.limits import with_limits
from tests.support.redis_server import RedisServer, free_port, running_redis, until_it_works

PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisServer]:
    with running_redis(PASSWORD) as server:
        yield server


@pytest.fixture
def server(shared: RedisServer) -> Iterator[RedisServer]:
    """The server as if it had just been started, whatever a test did to it."""
    yield shared
    shared.kill()
    shared.start()


@pytest.fixture
async def store(shared: RedisServer) -> AsyncIterator[RedisEphemeralStore]:
    with shared.client() as client:
        client.flushall()
    store = await RedisEphemeralStore.open(redis_address(shared.url), RedisTimeouts(probe_interval=0.2))
    yield store
    await store.close()


@pytest.fixture
async def calm(shared: RedisServer) -> AsyncIterator[RedisEphemeralStore]:
    """A store with all the time that a busy machine may need, for tests that do not ask how long it takes."""
    with shared.client() as client:
        client.flushall()
    store = await RedisEphemeralStore.open(redis_address(shared.url), RedisTimeouts(call=10))
    yield store
    await store.close()


async def expect_failure(call: Awaitable[object]) -> tuple[str, float]:
    """What a call failed with, and after how many milliseconds."""
    begin = time.perf_counter()
    with pytest.raises(StoreError) as caught:
        await call
    assert PASSWORD not in str(caught.value)
    return str(caught.value), (time.perf_counter() - begin) * 1000


async def test_keys_carry_our_prefix_and_deadlines_are_the_server_s(
    calm: RedisEphemeralStore, shared: RedisServer
) -> None:
    await calm.put("a b\n*", b"one", ttl=60.0004)
    await calm.put("b", b"two")
    with shared.client() as client:
        assert sorted(client.keys()) == [b"gateway:a b\n*", b"gateway:b"]
        assert 55_000 < client.pttl("gateway:a b\n*") <= 60_001
        assert client.pttl("gateway:b") == -1


async def test_the_shortest_deadline_is_a_millisecond(calm: RedisEphemeralStore) -> None:
    await calm.put("a", b"one", ttl=0.0)
    await asyncio.sleep(0.01)
    assert await calm.get_many(["a"]) == {}


async def test_a_socket_file_and_a_database_may_be_named(shared: RedisServer) -> None:
    store = (await open_stores(shared.socket_url.replace("unix://", f"unix://:{PASSWORD}@"))).ephemeral
    await store.put("a", b"one")
    await store.close()
    with shared.client() as client:
        client.select(3)
        assert client.get("gateway:a") == b"one"
        client.flushall()


@with_limits(loaded=1500, quiet=150)  # milliseconds
async def test_a_frozen_server_costs_a_chat_150_ms_at_most(server: RedisServer, limits: float) -> None:
    store = await RedisEphemeralStore.open(redis_address(server.url))
    server.freeze()
    waits = [await expect_failure(store.get_many(["a"])) for _ in range(2)]
    await store.close()
    assert all("did not answer within" in message for message, _ in waits)
    assert waits[0][1] > 95
    assert sum(wait for _, wait in waits) <= limits


@with_limits(loaded=6, quiet=1.5)  # seconds until it is used again
async def test_a_server_that_stays_silent_is_left_alone_until_it_answers(
    store: RedisEphemeralStore, server: RedisServer, limits: float
) -> None:
    await store.put("a", b"one")
    server.freeze()
    for _ in range(3):
        assert "did not answer" in (await expect_failure(store.get_many(["a"])))[0]
    waits = []
    for _ in range(100):
        message, wait = await expect_failure(store.put("a", b"two"))
        assert "does not answer; it will be used again" in message
        waits.append(wait)
    assert statistics.median(waits) < 5
    server.thaw()
    assert await until_it_works(lambda: store.get_many(["a"])) < limits
    assert await store.get_many(["a"]) == {"a": b"one"}


@with_limits(loaded=(1500, 6), quiet=(125, 1.5))  # milliseconds of a call, seconds until it is used again
async def test_a_killed_server_is_used_again_when_it_is_back(
    store: RedisEphemeralStore, server: RedisServer, limits: tuple[float, float]
) -> None:
    wait, recovery = limits
    await store.put("a", b"one")
    server.kill()
    for _ in range(4):
        assert (await expect_failure(store.put_new("secret", b"s")))[1] < wait
    server.start()
    assert await until_it_works(lambda: store.get_many(["a"])) < recovery
    assert await store.get_many(["a"]) == {}
    assert await store.put_new("secret", b"s") == b"s"


async def test_a_restart_between_two_calls_goes_unnoticed(calm: RedisEphemeralStore, server: RedisServer) -> None:
    await asyncio.gather(*(calm.put(f"{n}", b"") for n in range(MAX_CONNECTIONS)))
    server.kill()
    server.start()
    await asyncio.sleep(0.05)  # the connections learn that they are closed
    await asyncio.gather(*(calm.put(f"{n}", b"") for n in range(MAX_CONNECTIONS)))


async def test_callers_that_leave_use_up_no_connection_and_mix_up_no_answer(calm: RedisEphemeralStore) -> None:
    kept = {f"{n}": b"%d" % n for n in range(200)}
    await asyncio.gather(*(calm.put(key, value) for key, value in kept.items()))
    seeded = random.Random(7)

    async def impatient(key: str) -> None:
        try:
            async with asyncio.timeout(seeded.random() * 0.02):
                assert await calm.get_many([key]) == {key: kept[key]}
        except TimeoutError:
            gone.append(key)

    gone: list[str] = []
    for _ in range(5):
        await asyncio.gather(*(impatient(key) for key in kept))
    assert 50 < len(gone) < 1000
    answers = await asyncio.gather(*(calm.get_many([key]) for key in kept))
    assert answers == [{key: value} for key, value in kept.items()]
    assert not calm._client.connection_pool._in_use_connections


async def test_a_refusal_is_an_answer_and_opens_no_breaker(calm: RedisEphemeralStore, shared: RedisServer) -> None:
    with shared.client() as client:
        client.lpush("gateway:list", "x")
        for _ in range(5):
            assert "refused the command (ResponseError)" in (await expect_failure(calm.put_new("list", b"")))[0]
        client.config_set("maxmemory", 1)
        try:
            for _ in range(5):
                assert "refused the command (OutOfMemoryError)" in (await expect_failure(calm.put("a", b"")))[0]
        finally:
            client.config_set("maxmemory", 0)
    await calm.put("a", b"one")


@pytest.mark.parametrize("login", ["", ":wrong-horse@", "nobody:wrong-horse@"])
async def test_a_wrong_password_is_said_and_not_repeated(
    shared: RedisServer, login: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"redis://{login}127.0.0.1:{shared.port}"
    stores = await open_stores(url)
    store = stores.ephemeral
    messages = [(await expect_failure(store.put("a", b"")))[0] for _ in range(4)]
    assert "does not accept the user and password" in messages[0]
    shown = [repr(store), repr(vars(store)), repr(vars(stores.connection))]
    assert "horse" not in " ".join([*messages, *caplog.messages, *shown])
    await store.close()


async def test_the_password_is_in_no_representation(calm: RedisEphemeralStore) -> None:
    shown = [repr(calm), repr(vars(calm)), repr(vars(calm.connection)), repr(calm._client.connection_pool)]
    assert PASSWORD not in "".join(shown)


async def test_nobody_listening_is_no_reason_not_to_open(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    store = (await open_stores(f"redis://:{PASSWORD}@127.0.0.1:{port}/0")).ephemeral
    assert caplog.messages == [f"the store redis://127.0.0.1:{port}/0 cannot be reached yet"]
    message, _ = await expect_failure(store.put_new("secret", b""))
    assert message.startswith(f"The store redis://127.0.0.1:{port}/0 cannot be reached: ")
    assert "set `secret`" in message
    await store.close()


@with_limits(loaded=3, quiet=0.5)  # seconds
async def test_closing_while_the_server_is_frozen_takes_no_time(
    store: RedisEphemeralStore, server: RedisServer, limits: float
) -> None:
    server.freeze()
    for _ in range(3):
        await expect_failure(store.get_many(["a"]))
    begin = time.perf_counter()
    await store.close()
    assert time.perf_counter() - begin < limits


def test_tls_checks_the_server_s_certificate_and_name() -> None:
    pool = build_pool(redis_address("rediss://:word@host"))
    connection = pool.make_connection()
    assert isinstance(connection, SSLConnection)
    assert (connection.ssl_context.cert_reqs, connection.ssl_context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_tls_to_a_plain_server_fails_cleanly(shared: RedisServer) -> None:
    url = f"rediss://:{PASSWORD}@127.0.0.1:{shared.port}"
    store = (await open_stores(url, RedisTimeouts(connect=0.2))).ephemeral
    await expect_failure(store.put("a", b""))
    await store.close()


@pytest.mark.parametrize("url", ["redis://", "unix://", "redis://:pass/horse@host", "postgres://:horse@host"])
async def test_an_impossible_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(StoreError, match="redis://") as caught:
        await open_stores(url)
    assert "horse" not in str(caught.value)


def test_a_gateway_on_sqlite_does_not_import_the_client() -> None:
    code = "import sys, gateway.app; assert 'gateway.stores.open' in sys.modules; print('redis' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout.strip() == "False"
