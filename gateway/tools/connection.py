"""A connection to an MCP server, opened again whenever it ends."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol

import msgspec

from gateway.domain.tool import ToolOutcome
from gateway.tools.listing import ToolListing

FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0  # seconds before a connection is opened again; doubles each time
HEALTHY_SECONDS = 60.0  # that a connection must have lasted for the delay to begin anew
STABLE_SECONDS = 900.0  # without another list, after which changes are followed as fast as at first


class McpFailure(Exception):
    """Why a server did not do what it was asked, in words for people."""

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered  # the server itself said so: it is there


class ConnectionTimings(msgspec.Struct, frozen=True):
    """Seconds between looks at a server."""

    connect: float = 10.0  # that a server may take to answer at first
    probe: float = 5.0  # that a list may take later
    refresh: float = 60.0  # between two lists if the server announces no change
    between: float = 2.0  # at least, between two lists; doubles with every list that differs
    longest: float = 300.0


class ToolSession(Protocol):
    """A session while it is open."""

    async def list_tools(self) -> ToolListing:
        """The tools of the server now; raises McpFailure."""
        ...

    async def call(self, name: str, arguments: dict[str, Any], seconds: float) -> ToolOutcome:
        """The result of a call; raises McpFailure."""
        ...

    async def watch_list(self, report_change: Callable[[], None]) -> None:
        """Report changes of the list as long as the server announces them."""
        ...


OpenSession = Callable[[Callable[[], None], Callable[[], None]], AbstractAsyncContextManager[ToolSession]]


class McpConnection:
    """Keeps a session open until `run` is cancelled; calls come from anywhere."""

    def __init__(
        self, open_session: OpenSession, take_listing: Callable[[ToolListing], bool], timings: ConnectionTimings
    ) -> None:
        self._open, self._take_listing, self._timings = open_session, take_listing, timings
        self._session: ToolSession | None = None
        self._attempted = asyncio.Event()  # the first attempt has succeeded or failed
        self._look = asyncio.Event()  # the list may have changed, or the server may be gone
        self._broken = False  # something failed, and nobody has asked the server since
        self._interval, self._listed_at = timings.between, 0.0
        self.error: str | None = None  # why it is down
        self.calls = 0  # that run now
        self.used_at = time.monotonic()

    @property
    def is_up(self) -> bool:
        return self._session is not None and not self._broken

    @property
    def is_down(self) -> bool:
        """Whether it has failed; one that was never tried has not."""
        return not self.is_up and self._attempted.is_set()

    async def run(self) -> None:
        """Open sessions, one after the other, until cancelled."""
        delay = FIRST_DELAY
        while True:
            began = time.monotonic()
            task = asyncio.create_task(self._keep_session())
            try:
                await asyncio.wait({task})
            finally:
                self._leave()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            error = None if task.cancelled() else task.exception()
            self.error = describe_failure(error) if error is not None else "the connection was closed"
            self._attempted.set()
            delay = FIRST_DELAY if time.monotonic() - began > HEALTHY_SECONDS else delay
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY)

    async def call(self, name: str, arguments: dict[str, Any], seconds: float) -> ToolOutcome:
        """The result of a call; raises McpFailure if the server does not answer it. Waits for the first attempt."""
        self.used_at = time.monotonic()
        if self._session is None:
            await self._attempted.wait()
        if self._session is None:
            raise McpFailure(self.error or "the server does not answer")
        self.calls += 1
        try:
            return await self._session.call(name, arguments, seconds)
        except McpFailure as failure:
            if not failure.answered:
                self._look.set()  # is it still there?
            raise
        finally:
            self.calls -= 1
            self.used_at = time.monotonic()

    async def _keep_session(self) -> None:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._timings.connect):
                session = await stack.enter_async_context(self._open(self._look.set, self._report_failure))
                await self._list(session)
            self._session, self.error, self._broken = session, None, False
            self._attempted.set()
            watching = asyncio.create_task(session.watch_list(self._look.set))
            try:
                while True:
                    await self._wait_for_reason()
                    async with asyncio.timeout(self._timings.probe):
                        await self._list(session)
            finally:
                self._leave()
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _wait_for_reason(self) -> None:
        """Return when the list should be asked for: it may have changed, or it is time; but not all the time."""
        try:
            async with asyncio.timeout(self._timings.refresh):
                await self._look.wait()
        except TimeoutError:
            return
        if not self._broken:
            await asyncio.sleep(max(0.0, self._listed_at + self._interval - time.monotonic()))

    async def _list(self, session: ToolSession) -> None:
        self._look.clear()
        listing = await session.list_tools()
        self._broken = False
        now, timings = time.monotonic(), self._timings
        if self._take_listing(listing):
            # A server that names other tools all the time is followed more and more slowly.
            self._interval = min(2 * self._interval, timings.longest) if self._listed_at else timings.between
        elif now - self._listed_at > STABLE_SECONDS:
            self._interval = timings.between
        self._listed_at = now

    def _report_failure(self) -> None:
        """Something broke: nothing is offered until the server has answered again."""
        self._broken = True
        self._look.set()

    def _leave(self) -> None:
        self._session = None


def describe_failure(error: BaseException) -> str:
    """The first error that is not a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "the server did not answer in time"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:299]}…"
