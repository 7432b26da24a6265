"""Connections of their own for what is large and not urgent: it never takes those that a chat waits for."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.domain.redis_address import RedisAddress
from gateway.errors import StoreError
from gateway.stores.breaker import ProbingBreaker
from gateway.stores.redis_link import CONNECT_SECONDS, NO_ANSWER, PROBE_SECONDS, pool_of, silence

CALL_SECONDS = 2.0  # how long one call may take; each moves a few hundred kilobytes at the most

Result = TypeVar("Result")


class RedisBulk:
    """A server that may be slow, down or empty at any time: every call ends in time, with an answer or a StoreError."""

    def __init__(self, address: RedisAddress, seconds: float = CALL_SECONDS) -> None:
        self._client = Redis.from_pool(pool_of(address))
        self._name, self._seconds = str(address), seconds
        self._breaker = ProbingBreaker(f"the store {address} (vectors)", self._reachable, pause=PROBE_SECONDS)

    async def call(self, work: Callable[[Redis], Awaitable[Result]], seconds: float | None = None) -> Result:
        """Do some work with the client; raises StoreError when the server does not answer in time, or refuses."""
        seconds = seconds or self._seconds
        if self._breaker.open:
            raise StoreError(f"The store {self._name} does not answer; it is used again as soon as it does.")
        try:
            async with asyncio.timeout(seconds):
                result = await work(self._client)
        except NO_ANSWER as error:
            self._breaker.missed()
            raise StoreError(f"The store {self._name} {silence(error, seconds)}.") from None
        except RedisError as error:
            # Only the kind of error: some of the server's messages repeat the command that they are about.
            self._breaker.answered()
            raise StoreError(f"The store {self._name} refused ({type(error).__name__}).") from None
        self._breaker.answered()
        return result

    async def close(self) -> None:
        await self._breaker.close()
        with contextlib.suppress(*NO_ANSWER):
            await self._client.aclose()

    async def _reachable(self) -> bool:
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
