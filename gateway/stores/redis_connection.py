"""A connection pool to a Redis or Valkey server, with one timeout per call and one breaker for all stores on it."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

import msgspec
from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import AuthenticationError, OutOfMemoryError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from gateway.domain.redis_address import RedisAddress
from gateway.errors import StoreError, StoreFull
from gateway.stores.breaker import ProbingBreaker

KEY_PREFIX = b"gateway:"  # of every key but those of records
MAX_CONNECTIONS = 16
SUSPECT_SHARE = (
    0.25  # of the timeout, after an unanswered call: a chat makes three calls, which may cost it 150 ms at most
)

# The builtin TimeoutError, of asyncio.timeout, is an OSError.
NO_ANSWER = (RedisConnectionError, RedisTimeoutError, OSError)

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class RedisTimeouts(msgspec.Struct, frozen=True):
    """How long calls to a server may take, in seconds, and how often a silent one is probed."""

    call: float = 0.1  # for a connection and the answer, while a chat waits
    body: float = 0.5  # for a call that carries bodies: no chat waits, and a commit that times out may have happened
    background: float = 2.0  # for a call that nobody waits for
    connect: float = 2.0  # at start and for a probe
    probe_interval: float = 1.0


DEFAULT_TIMEOUTS = RedisTimeouts()


class RedisConnection:
    """A server that may be slow, down or empty at any time: every call ends within its timeout."""

    def __init__(self, client: Redis, name: str, timeouts: RedisTimeouts = DEFAULT_TIMEOUTS) -> None:
        self.client, self.name, self.timeouts = client, name, timeouts
        self._breaker = ProbingBreaker(f"the store {name}", self.ping, probe_interval=timeouts.probe_interval)

    @classmethod
    async def open(cls, address: RedisAddress, timeouts: RedisTimeouts = DEFAULT_TIMEOUTS) -> Self:
        """A connection that works as soon as its server does: an unreachable server is only logged."""
        connection = cls(Redis.from_pool(build_pool(address, timeouts.connect)), str(address), timeouts)
        if not await connection.ping():
            log.warning("the store %s cannot be reached yet", address)
        return connection

    @property
    def breaker_open(self) -> bool:
        """Whether the server is not used at the moment because it does not answer."""
        return self._breaker.is_open

    async def close(self) -> None:
        await self._breaker.close()
        with contextlib.suppress(*NO_ANSWER):
            await self.client.aclose()

    async def ping(self) -> bool:
        """Whether the server answers now, with whatever."""
        try:
            # Idle connections from before an outage may be dead without knowing it.
            await self.client.connection_pool.disconnect(inuse_connections=False)
            async with asyncio.timeout(self.timeouts.connect):
                await self.client.ping()
        except NO_ANSWER:
            return False
        except RedisError:
            return True
        return True

    async def call(self, work: Callable[[], Awaitable[Result]], seconds: float | None = None) -> Result:
        """The result of `work`; StoreError if the server does not answer in time, or refuses."""
        if self._breaker.is_open:
            raise StoreError(f"The store {self.name} does not answer; it will be used again as soon as it does.")
        seconds = seconds or self.timeouts.call * (SUSPECT_SHARE if self._breaker.has_misses else 1)
        try:
            async with asyncio.timeout(seconds):
                result = await work()
        except NO_ANSWER as error:
            self._breaker.record_miss()
            raise StoreError(f"The store {self.name} {describe_silence(error, seconds)}.") from None
        except RedisError as error:
            # Only the kind of error: some of the server's messages repeat the command that they are about.
            self._breaker.record_answer()
            kind = StoreFull if isinstance(error, OutOfMemoryError) else StoreError
            raise kind(f"The store {self.name} refused the command ({type(error).__name__}).") from None
        self._breaker.record_answer()
        return result


def describe_silence(error: Exception, seconds: float) -> str:
    """Why there was no answer, without anything that the server said."""
    if isinstance(error, AuthenticationError):
        return "does not accept the user and password in `store`"
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return f"did not answer within {seconds * 1000:g} ms"
    if type(error) is RedisConnectionError:
        return f"cannot be reached: {str(error).rstrip('.')}"
    return "cannot be reached"


def build_pool(address: RedisAddress, connect_seconds: float = DEFAULT_TIMEOUTS.connect) -> BlockingConnectionPool:
    """Connections that never retry by themselves: redis-py's own retries would take seconds."""
    kind: type[Connection | UnixDomainSocketConnection]
    where: dict[str, Any]
    if address.scheme == "unix":
        kind, where = UnixDomainSocketConnection, {"path": address.path}
    else:
        kind = SSLConnection if address.scheme == "rediss" else Connection
        where = {"host": address.host, "port": address.port}
    return BlockingConnectionPool(
        max_connections=MAX_CONNECTIONS,
        timeout=None,
        connection_class=kind,
        db=address.database,
        username=address.username,
        password=address.password,
        retry=None,
        socket_timeout=connect_seconds,
        socket_connect_timeout=connect_seconds,
        protocol=2,  # logs in with one plain command, and servers of all ages support it
        driver_info=None,  # saves a round trip per connection
        **where,
    )
