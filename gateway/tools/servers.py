"""All MCP servers that policies use: a connection per workspace, their lists, and who may use them."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from gateway.domain.principal import DEFAULT_WORKSPACE
from gateway.domain.tool import ToolOutcome, ToolServerAddress
from gateway.links.guard import LinkGuard
from gateway.settings import ToolServerSettings
from gateway.tools.connection import ConnectionTimings, McpConnection, McpFailure, OpenSession, ToolSession
from gateway.tools.listing import ToolListing

MAX_SERVERS = 20  # that one workspace may define by their URLs
MAX_CONNECTIONS = 64  # of one server, for workspaces that call it
IDLE_SECONDS = 600.0  # without a call, after which a connection is closed unless it keeps the list
TICK_SECONDS = 5.0

DEFAULT_TIMINGS = ConnectionTimings()
NO_SERVERS: Mapping[str, ToolServerSettings] = MappingProxyType({})
Uses = Mapping[ToolServerAddress, Collection[str]]  # workspaces whose policies name a server; "": the files


class ConnectionKey(msgspec.Struct, frozen=True):
    """Whose connection to which server."""

    workspace: str
    address: ToolServerAddress


ServerState = Literal["up", "down", "connecting"]


class ServerStatus(msgspec.Struct, frozen=True):
    """How a server fares."""

    address: ToolServerAddress
    state: ServerState
    error: str | None
    listing: ToolListing | None


class ToolServers:
    """The servers; everything but `run` and `call` answers from memory."""

    def __init__(
        self,
        settings: Mapping[str, ToolServerSettings] = NO_SERVERS,
        guard: LinkGuard | None = None,
        timings: ConnectionTimings = DEFAULT_TIMINGS,
    ) -> None:
        self.settings, self.guard, self.timings = settings, guard or LinkGuard(), timings
        self._uses: dict[ToolServerAddress, frozenset[str]] = {}
        self._homes: dict[ToolServerAddress, ConnectionKey] = {}  # the connections that keep the lists
        self._listings: dict[ToolServerAddress, ToolListing] = {}
        self._texts: dict[ToolServerAddress, str] = {}  # the same as texts, for policies
        self._changed: set[ToolServerAddress] = set()  # lists that policies do not use yet
        self._connections: dict[ConnectionKey, McpConnection] = {}
        self._tasks: dict[ConnectionKey, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()

    def find_listing(self, address: ToolServerAddress) -> str | None:
        """The tools of a server as a text; None if it has never told them. Called from any thread."""
        return self._texts.get(address)

    def may_use(self, workspace: str, name: str) -> bool:
        """Whether a workspace may use a server of the configuration; "": the policy files."""
        settings = self.settings.get(name)
        return settings is not None and (
            not workspace or settings.workspaces is None or workspace in settings.workspaces
        )

    def list_names(self, workspace: str) -> list[str]:
        """The servers of the configuration that a workspace may use; "": the policy files."""
        return [name for name in self.settings if self.may_use(workspace, name)]

    def follow(self, uses: Uses) -> None:
        """Keep connections to these servers from now on."""
        self._uses = {address: frozenset(names) for address, names in uses.items()}
        self._homes = self._choose_homes()
        self._listings = {address: one for address, one in self._listings.items() if address in self._uses}
        self._texts = {address: one for address, one in self._texts.items() if address in self._uses}
        self._wake.set()

    def is_available(self, workspace: str, address: ToolServerAddress) -> bool:
        """Whether a workspace may call the tools of a server, and the server is there."""
        if address.name and not self.may_use(workspace, address.name):
            return False
        own = self._connections.get(ConnectionKey(workspace, address))
        if own is not None and (own.is_up or own.is_down):
            return own.is_up
        key = self._homes.get(address)
        home = self._connections.get(key) if key is not None else None
        return home is not None and home.is_up

    def list_statuses(self, workspace: str) -> list[ServerStatus]:
        """The servers that the policies of a workspace name."""
        return [
            self._describe(address)
            for address, users in self._uses.items()
            if workspace in users or ("" in users and (not address.name or self.may_use(workspace, address.name)))
        ]

    async def call(
        self, workspace: str, address: ToolServerAddress, name: str, arguments: dict[str, Any], seconds: float
    ) -> ToolOutcome:
        """The result of a call over the workspace's own connection; raises McpFailure."""
        if address.name and not self.may_use(workspace, address.name):
            raise McpFailure("this workspace may not use the server")
        key = ConnectionKey(workspace, address)
        connection = self._connections.get(key)
        if connection is None:
            if address not in self._uses or not self._make_room(address):
                raise McpFailure("too many workspaces use the server at once")
            connection = self._connections[key] = self._make_connection(key)
            self._wake.set()
        return await connection.call(name, arguments, seconds)

    async def run(self, use_lists: Callable[[Collection[ToolServerAddress]], Awaitable[None]]) -> None:
        """Keep the connections, and let policies use the lists that have changed, until cancelled."""
        try:
            while True:
                self._wake.clear()
                await self._reconcile()
                if self._changed:
                    changed, self._changed = self._changed, set()
                    await use_lists(changed)
                    continue
                try:
                    async with asyncio.timeout(TICK_SECONDS):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            await self._end(list(self._tasks))

    async def _reconcile(self) -> None:
        """Start what is missing, end what nobody uses any more."""
        homes = set(self._homes.values())
        for key in homes:
            if key not in self._connections:
                self._connections[key] = self._make_connection(key)
        now = time.monotonic()
        unused = [
            key
            for key, one in self._connections.items()
            if key not in homes
            and (key.address not in self._uses or (not one.calls and now - one.used_at > IDLE_SECONDS))
        ]
        await self._end(unused)
        for key in unused:
            del self._connections[key]
        for key, connection in self._connections.items():
            if key not in self._tasks or self._tasks[key].done():
                self._tasks[key] = asyncio.create_task(connection.run())

    async def _end(self, keys: Collection[ConnectionKey]) -> None:
        ended = [self._tasks.pop(key) for key in keys if key in self._tasks]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    def _choose_homes(self) -> dict[ToolServerAddress, ConnectionKey]:
        """Whose connection keeps the list of each server: the first workspace's that may have it.

        A workspace may have only so many servers of its own. Those beyond are left out, unless another has them too.
        """
        homes: dict[ToolServerAddress, ConnectionKey] = {}
        own: Counter[str] = Counter()
        for address, users in self._uses.items():
            if address.name or "" in users:  # it is the operator's
                allowed = self.settings[address.name].workspaces if address.name in self.settings else None
                homes[address] = ConnectionKey((allowed or [DEFAULT_WORKSPACE])[0], address)
                continue
            own.update(users)
            workspace = min((one for one in users if own[one] <= MAX_SERVERS), default=None)
            if workspace is not None:
                homes[address] = ConnectionKey(workspace, address)
        return homes

    def _make_connection(self, key: ConnectionKey) -> McpConnection:
        address, settings = key.address, self.settings.get(key.address.name) if key.address.name else None
        timings = self.timings if settings is None else replace(self.timings, connect=settings.connect_seconds)

        def take(listing: ToolListing) -> bool:
            return key == self._homes.get(address) and self._take_listing(address, listing)

        return McpConnection(self._make_opener(address, settings), take, timings)

    def _make_opener(self, address: ToolServerAddress, settings: ToolServerSettings | None) -> OpenSession:
        @asynccontextmanager
        async def open_now(
            report_change: Callable[[], None], report_failure: Callable[[], None]
        ) -> AsyncGenerator[ToolSession]:
            # Importing the package takes a second: nobody pays for it who has no server, and no request waits for it.
            module = await asyncio.to_thread(import_module, "gateway.tools.mcp_session")
            opened: AbstractAsyncContextManager[ToolSession] = module.open_session(
                address, settings, self.guard, report_change, report_failure
            )
            async with opened as session:
                yield session

        return open_now

    def _take_listing(self, address: ToolServerAddress, listing: ToolListing) -> bool:
        """Know the tools of a server; True if they differ from those that were known."""
        text = listing.encode()
        self._listings[address] = listing
        if address not in self._uses or self._texts.get(address) == text:
            return False
        self._texts[address] = text
        self._changed.add(address)
        self._wake.set()
        return True

    def _make_room(self, address: ToolServerAddress) -> bool:
        """Whether one more workspace may have a connection to a server; the one that was idle longest gives way."""
        home = self._homes.get(address)
        others = [key for key in self._connections if key.address == address and key != home]
        if len(others) < MAX_CONNECTIONS:
            return True
        idle = [key for key in others if not self._connections[key].calls]
        if not idle:
            return False
        oldest = min(idle, key=lambda key: self._connections[key].used_at)
        del self._connections[oldest]
        if oldest in self._tasks:
            self._tasks.pop(oldest).cancel()
        return True

    def _describe(self, address: ToolServerAddress) -> ServerStatus:
        key, listing = self._homes.get(address), self._listings.get(address)
        connection = self._connections.get(key) if key is not None else None
        if connection is None:
            crowded = key is None
            error = f"a workspace can have {MAX_SERVERS} servers of its own" if crowded else None
            return ServerStatus(address, "down" if crowded else "connecting", error, listing)
        state: ServerState = "up" if connection.is_up else "down" if connection.is_down else "connecting"
        return ServerStatus(address, state, connection.error, listing)
