"""A uvicorn server that stops as soon as it is told to."""

import asyncio
import socket
from contextlib import suppress

import uvicorn

TICK_SECONDS = 1.0  # how often the date of responses is renewed
CLOSING_SECONDS = 0.02  # in which idle connections are gone


class PromptServer(uvicorn.Server):
    """Uvicorn looks ten times a second whether it has to stop, and pauses as long before it does.

    Two tenths of a second are most of the time of a test that starts a server. What is under way when this one is
    stopped is drained by uvicorn itself.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Stop, from any thread; whoever waits for the end of `serve` knows when it is done."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: it is over already
                self._loop.call_soon_threadsafe(self._told.set)

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(0)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
        else:
            await self.lifespan.shutdown()
