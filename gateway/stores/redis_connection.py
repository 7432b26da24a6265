"""The way to a Redis or Valkey server: one pool, one budget per call and one breaker for all that is kept there."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import AuthenticationError, OutOfMemoryError, RedisError
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as NoReply

from gateway.domain.redis_address import RedisAddress
from gateway.errors import StoreError, StoreFull
from gateway.stores.breaker import ProbingBreaker

OPERATION_SECONDS = 0.1  # how long a caller waits, for a connection and for the answer
SUSPECT_SHARE = 0.4  # of that, after a call without answer: a chat makes two calls, which may cost it 150 ms at most
CONNECT_SECONDS = 2.0  # how long the start and a probe wait, which no chat waits for
PROBE_SECONDS = 1.0  # how often a silent server is asked whether it is back
CONNECTIONS = 16

# The builtin TimeoutError, of asyncio.timeout, is an OSError.
NO_ANSWER = (NoConnection, NoReply, OSError)

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class RedisConnection:
    """A server that may be slow, down or empty at any time: every call ends within its budget."""

    def __init__(self, client: Redis, name: str, budget: float) -> None:
        self.client, self.name, self.budget = client, name, budget
        self._breaker = ProbingBreaker(f"the store {name}", self.reachable, pause=PROBE_SECONDS)

    @classmethod
    async def open(cls, address: RedisAddress, *, budget: float = OPERATION_SECONDS) -> Self:
        """A link that is usable as soon as its server is: one that cannot be reached now is only warned of."""
        link = cls(Redis.from_pool(pool_of(address)), str(address), budget)
        if not await link.reachable():
            log.warning("the store %s cannot be reached yet", address)
        return link

    @property
    def breaker_open(self) -> bool:
        """Whether the server is left alone because it does not answer."""
        return self._breaker.open

    async def close(self) -> None:
        await self._breaker.close()
        with contextlib.suppress(*NO_ANSWER):
            await self.client.aclose()

    async def reachable(self) -> bool:
        """Whether the server answers now; what it says does not matter."""
        try:
            # Idle connections from before an outage may be dead without knowing it.
            await self.client.connection_pool.disconnect(inuse_connections=False)
            async with asyncio.timeout(CONNECT_SECONDS):
                await self.client.ping()
        except NO_ANSWER:
            return False
        except RedisError:
            return True
        return True

    async def call(self, work: Callable[[], Awaitable[Result]], budget: float | None = None) -> Result:
        """The result of `work`; StoreError when the server does not answer in time, or refuses."""
        if self._breaker.open:
            raise StoreError(f"The store {self.name} does not answer; it is used again as soon as it does.")
        seconds = budget or self.budget * (SUSPECT_SHARE if self._breaker.suspicious else 1)
        try:
            async with asyncio.timeout(seconds):
                result = await work()
        except NO_ANSWER as error:
            self._breaker.missed()
            raise StoreError(f"The store {self.name} {silence(error, seconds)}.") from None
        except RedisError as error:
            # Only the kind of error: some of the server's messages repeat the command that they are about.
            self._breaker.answered()
            kind = StoreFull if isinstance(error, OutOfMemoryError) else StoreError
            raise kind(f"The store {self.name} refused ({type(error).__name__}).") from None
        self._breaker.answered()
        return result


def silence(error: Exception, seconds: float) -> str:
    """Why there was no answer, without anything that the server said."""
    if isinstance(error, AuthenticationError):
        return "does not accept the user and password that `store` names"
    if isinstance(error, TimeoutError | NoReply):
        return f"did not answer within {seconds * 1000:g} ms"
    return f"cannot be reached: {str(error).rstrip('.')}" if type(error) is NoConnection else "cannot be reached"


def pool_of(address: RedisAddress) -> BlockingConnectionPool:
    """Connections that never try again by themselves: redis-py's own retries would take seconds."""
    kind: type[Connection | UnixDomainSocketConnection]
    where: dict[str, Any]
    if address.scheme == "unix":
        kind, where = UnixDomainSocketConnection, {"path": address.path}
    else:
        kind = SSLConnection if address.scheme == "rediss" else Connection
        where = {"host": address.host, "port": address.port}
    return BlockingConnectionPool(
        max_connections=CONNECTIONS,
        timeout=None,
        connection_class=kind,
        db=address.database,
        username=address.username,
        password=address.password,
        retry=None,
        socket_timeout=CONNECT_SECONDS,
        socket_connect_timeout=CONNECT_SECONDS,
        protocol=2,  # its log-in is one plain command, and servers of all ages know it
        driver_info=None,  # saves a round trip per connection
        **where,
    )
