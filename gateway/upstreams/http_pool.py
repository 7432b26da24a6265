"""The connections to one upstream. Each account has its own, so that an answer cannot reach another one's caller."""

import asyncio
from typing import Final

from gateway.upstreams.deadlines import Deadlines
from gateway.upstreams.endpoint import Dialer
from gateway.upstreams.http_connection import ConnectionState, HttpConnection
from gateway.upstreams.known_replies import KnownReplyHeads

KEEPALIVE_SECONDS: Final = 30
MAX_IDLE: Final = 512  # kept open without a request, over all accounts


class ConnectionPool:
    """Keeps idle connections and hands out the one that was used last: it is the least likely to have been closed."""

    def __init__(self, dialer: Dialer, head_limit: int) -> None:
        self._dialer, self._head_limit = dialer, head_limit
        self._known = KnownReplyHeads(head_limit)
        self._idle: dict[str | None, dict[HttpConnection, None]] = {}  # by account, the last used one last
        self._idle_count = 0
        self._open: set[HttpConnection] = set()
        self._deadlines = Deadlines(KEEPALIVE_SECONDS)
        self._closed = False

    def take(self, account: str | None) -> HttpConnection | None:
        """An idle connection on which nothing has arrived; those on which something has are closed."""
        while idle := self._idle.get(account):
            connection, _ = idle.popitem()  # the one that was used last
            if not idle:
                del self._idle[account]
            self._idle_count -= 1
            self._deadlines.stop(connection)
            if connection.is_quiet():
                return connection
            connection.close()
        return None

    async def connect(self, account: str | None) -> HttpConnection:
        """A new connection; raises OSError, or TimeoutError when it takes too long."""
        if self._closed:
            raise ConnectionAbortedError("the pool is closed")
        connection = await self._dialer.open(lambda: HttpConnection(self, account, self._head_limit, self._known))
        if self._closed:
            connection.close()
        elif connection.state is not ConnectionState.CLOSED:
            self._open.add(connection)
        return connection

    def keep(self, connection: HttpConnection) -> None:
        if self._closed or self._idle_count >= MAX_IDLE:
            connection.close()
            return
        if not connection.is_reused and (tls := connection.tls) is not None:
            self._dialer.save_session(tls)
        self._idle.setdefault(connection.account, {})[connection] = None
        self._idle_count += 1
        self._deadlines.start(connection)

    def forget(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        self._remove(connection)

    async def close(self) -> None:
        """Close every connection; replies that are still coming break off."""
        self._closed = True
        self._deadlines.close()
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)  # transports let go of their sockets in the next iteration

    def _remove(self, connection: HttpConnection) -> None:
        """Take a connection out of the idle ones, if it is there."""
        idle = self._idle.get(connection.account)
        if idle is None or connection not in idle:
            return
        del idle[connection]
        if not idle:
            del self._idle[connection.account]
        self._idle_count -= 1
        self._deadlines.stop(connection)
