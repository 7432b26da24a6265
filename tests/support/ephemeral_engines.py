"""The engines of an EphemeralStore with a clock that tests set."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.domain.redis_address import redis_address
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.protocols import EphemeralStore
from gateway.stores.redis_connection import RedisTimeouts
from gateway.stores.redis_ephemeral import RedisEphemeralStore
from gateway.stores.sqlite_ephemeral import SqliteEphemeralStore
from tests.support.redis_server import RedisServer, bring_deadlines_nearer


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self._now = 1_000_000.0
        self.passed: Callable[[float], None] = lambda seconds: None  # tells an engine that has a clock of its own

    def __call__(self) -> float:
        return self._now

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, value: float) -> None:
        self.passed(value - self._now)
        self._now = value


OpenEngine = Callable[[Path, Clock, RedisServer], Awaitable[EphemeralStore]]


async def open_memory(_: Path, clock: Clock, __: RedisServer) -> EphemeralStore:
    return MemoryEphemeralStore(clock=clock)


async def open_sqlite(folder: Path, clock: Clock, _: RedisServer) -> EphemeralStore:
    return await SqliteEphemeralStore.open(folder / "gateway.db", clock=clock)


async def open_redis(
    _: Path, clock: Clock, server: RedisServer, kind: type[RedisEphemeralStore] = RedisEphemeralStore
) -> EphemeralStore:
    with server.client() as client:
        client.flushall()
    clock.passed = lambda seconds: bring_deadlines_nearer(server, seconds)
    # The suite asks what is kept, not how fast: a busy machine gets the time that it needs.
    return await kind.open(redis_address(server.url), RedisTimeouts(call=10))
