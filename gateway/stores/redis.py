"""The shared store: one Redis or Valkey server for several gateways."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self, TypeVar

from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as NoReply

from gateway.domain.redis_address import RedisAddress
from gateway.errors import StoreError
from gateway.stores.breaker import ProbingBreaker
from gateway.stores.encoding import encoded

OPERATION_SECONDS = 0.1  # how long a caller waits, for a connection and for the answer
SUSPECT_SHARE = 0.4  # of that, after a call without answer: a chat makes two calls, which may cost it 150 ms at most
CONNECT_SECONDS = 2.0  # how long the start and a probe wait, which no chat waits for
PROBE_SECONDS = 1.0  # how often a silent server is asked whether it is back
CONNECTIONS = 16
KEYS_PER_QUERY = 500
PREFIX = b"gateway:"
SHARED = "The secret that all gateways share is kept there: start it, or set `secret` in the configuration."

LEASE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

# The builtin TimeoutError, of asyncio.timeout, is an OSError.
NO_ANSWER = (NoConnection, NoReply, OSError)

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class RedisStore:
    """An EphemeralStore on a server that may be slow, down or empty at any time: every call ends within its budget."""

    def __init__(self, client: Redis, name: str, budget: float) -> None:
        self._client, self._name, self._budget = client, name, budget
        self._lease = client.register_script(LEASE)
        self._breaker = ProbingBreaker(f"the store {name}", self.reachable, pause=PROBE_SECONDS)

    @classmethod
    async def open(cls, address: RedisAddress, *, budget: float = OPERATION_SECONDS) -> Self:
        """A store that is usable as soon as its server is: one that cannot be reached now is only warned of."""
        store = cls(Redis.from_pool(pool_of(address)), str(address), budget)
        if not await store.reachable():
            log.warning("the store %s cannot be reached yet", address)
        return store

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        # Without a deadline SET also removes that of the former value.
        deadline = None if ttl is None else milliseconds(ttl)
        await self._call(lambda: self._client.set(named(key), value, px=deadline))

    async def put_new(self, key: str, value: bytes) -> bytes:
        name = named(key)

        async def work() -> bytes:
            while not await self._client.set(name, value, nx=True):
                kept: Any = await self._client.get(name)
                if kept is not None:  # else it expired in between, and the key is free
                    return bytes(kept)
            return value

        try:
            # Asked once at start: a slow moment must not keep a gateway from starting.
            return await self._call(work, max(self._budget, CONNECT_SECONDS))
        except StoreError as error:
            raise StoreError(f"{error} {SHARED}") from None

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(keys))

        async def work() -> list[bytes | None]:
            found: list[Any] = []
            for start in range(0, len(wanted), KEYS_PER_QUERY):
                found += await self._client.mget([named(key) for key in wanted[start : start + KEYS_PER_QUERY]])
            return found

        values = await self._call(work) if wanted else []
        return {key: value for key, value in zip(wanted, values, strict=True) if value is not None}

    async def add(self, key: str, amount: int, ttl: float) -> int:
        name, deadline = named(key), milliseconds(ttl)

        async def work() -> int:
            async with self._client.pipeline(transaction=True) as steps:
                # Only the first addition sets the deadline; INCRBY leaves it as it is.
                steps.set(name, 0, px=deadline, nx=True)
                steps.incrby(name, amount)
                total: Any = (await steps.execute())[1]
            return int(total)

        return await self._call(work)

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        words: list[bytes | int] = [encoded(owner), milliseconds(ttl)]
        return bool(await self._call(lambda: self._lease(keys=[named(key)], args=words)))

    @property
    def breaker_open(self) -> bool:
        """Whether the server is left alone because it does not answer."""
        return self._breaker.open

    async def close(self) -> None:
        await self._breaker.close()
        with contextlib.suppress(*NO_ANSWER):
            await self._client.aclose()

    async def reachable(self) -> bool:
        """Whether the server answers now; what it says does not matter."""
        try:
            # Idle connections from before an outage may be dead without knowing it.
            await self._client.connection_pool.disconnect(inuse_connections=False)
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._client.ping()
        except NO_ANSWER:
            return False
        except RedisError:
            return True
        return True

    async def _call(self, work: Callable[[], Awaitable[Result]], budget: float | None = None) -> Result:
        if self._breaker.open:
            raise StoreError(f"The store {self._name} does not answer; it is used again as soon as it does.")
        seconds = budget or self._budget * (SUSPECT_SHARE if self._breaker.suspicious else 1)
        try:
            async with asyncio.timeout(seconds):
                result = await work()
        except NO_ANSWER as error:
            self._breaker.missed()
            raise StoreError(f"The store {self._name} {silence(error, seconds)}.") from None
        except RedisError as error:
            # Only the kind of error: some of the server's messages repeat the command that they are about.
            self._breaker.answered()
            raise StoreError(f"The store {self._name} refused ({type(error).__name__}).") from None
        self._breaker.answered()
        return result


def silence(error: Exception, seconds: float) -> str:
    """Why there was no answer, without anything that the server said."""
    if isinstance(error, AuthenticationError):
        return "does not accept the user and password that `store` names"
    if isinstance(error, TimeoutError | NoReply):
        return f"did not answer within {seconds * 1000:g} ms"
    return f"cannot be reached: {str(error).rstrip('.')}" if type(error) is NoConnection else "cannot be reached"


def named(key: str) -> bytes:
    """The key as the server knows it; bytes, because a JSON string may hold lone surrogates."""
    return PREFIX + encoded(key)


def milliseconds(ttl: float) -> int:
    """A deadline as the server takes it; zero is none to it."""
    return max(1, math.ceil(ttl * 1000))


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
