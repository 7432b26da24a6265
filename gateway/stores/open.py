"""Opens the stores: one URL chooses the engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from gateway.domain.redis_address import SCHEMES, redis_address
from gateway.errors import StoreError
from gateway.stores.content import ContentStore
from gateway.stores.knowledge_records import KnowledgeRecords
from gateway.stores.memory_content import MemoryContentStore
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.memory_receipts import MemoryReceiptStore
from gateway.stores.memory_records import MemoryRecordStore
from gateway.stores.memory_sessions import MemorySessionStore
from gateway.stores.memory_statistics import MemoryStatisticsStore
from gateway.stores.protocols import EphemeralStore, ReceiptStore, RecordStore, SessionStore
from gateway.stores.sqlite_content import SqliteContentStore
from gateway.stores.sqlite_ephemeral import SqliteEphemeralStore
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from gateway.stores.sqlite_records import SqliteRecordStore
from gateway.stores.sqlite_sessions import SqliteSessionStore
from gateway.stores.sqlite_statistics import SqliteStatisticsStore
from gateway.stores.statistics import StatisticsStore

if TYPE_CHECKING:
    from gateway.stores.redis_connection import RedisTimeouts


class ServerConnection(Protocol):
    """A connection to a server."""

    @property
    def breaker_open(self) -> bool:
        """Whether the server is not used at the moment because it does not answer."""
        ...


class Stores(msgspec.Struct, frozen=True):
    """What one URL stands for: all stores are in the same file or on the same server."""

    ephemeral: EphemeralStore
    records: RecordStore
    sessions: SessionStore
    content: ContentStore
    connection: ServerConnection | None = None  # None: there is no server
    knowledge: KnowledgeRecords = msgspec.field(default_factory=KnowledgeRecords)

    @property
    def breaker_open(self) -> bool:
        """Whether the stores' server is not used at the moment because it does not answer; files have no breaker."""
        return self.connection is not None and self.connection.breaker_open

    async def close(self) -> None:
        """Release files, threads and connections; no store is used afterwards."""
        await self.knowledge.close()
        await self.ephemeral.close()


async def open_stores(url: str, redis_timeouts: RedisTimeouts | None = None) -> Stores:
    """The stores behind `memory:`, `sqlite:///relative/file.db`, `sqlite:////absolute/file.db` or `redis://host`.

    Raises StoreError for any other URL and when a file cannot be opened; a Redis server may also come up later.
    """
    scheme, _, rest = url.partition(":")
    match scheme.lower():
        case "memory":
            records = MemoryRecordStore()
            return Stores(MemoryEphemeralStore(), records, MemorySessionStore(), MemoryContentStore(records))
        case "sqlite":
            store = await SqliteEphemeralStore.open(_parse_sqlite_path(rest))
            threads, knowledge = store.threads, KnowledgeRecords(_name_file(rest, "knowledge"))
            stored, sessions = SqliteRecordStore(threads), SqliteSessionStore(threads)
            return Stores(store, stored, sessions, SqliteContentStore(threads), knowledge=knowledge)
        case known if known in SCHEMES:
            return await _open_redis(url, redis_timeouts)
    # Only the scheme is repeated: the rest of a URL may contain a password.
    raise StoreError(f"Unknown kind of store {scheme!r}; use memory:, sqlite:///./data/gateway.db or redis://host.")


def has_store(url: str) -> bool:
    """Whether there may be something behind a URL: a file that exists, or a server."""
    scheme, _, rest = url.partition(":")
    return scheme in SCHEMES or (scheme == "sqlite" and _parse_sqlite_path(rest).is_file())


async def open_receipts(url: str) -> ReceiptStore:
    """The receipts behind the URL of the store, in a file or on a connection of their own; raises StoreError."""
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        return MemoryReceiptStore()
    if scheme == "sqlite":
        return await SqliteReceiptStore.open(_name_file(rest, "receipts"))
    from gateway.stores.redis_receipts import RedisReceiptStore

    return await RedisReceiptStore.open(redis_address(url))


async def open_statistics(url: str, receipts: ReceiptStore, *, enabled: bool = True) -> StatisticsStore:
    """The figures about the receipts behind the same URL; `enabled`: receipts wait to be counted from now on."""
    if isinstance(receipts, MemoryReceiptStore):
        return MemoryStatisticsStore(receipts, enabled=enabled)
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite":
        return await SqliteStatisticsStore.open(_name_file(rest, "receipts"), enabled=enabled)
    from gateway.stores.redis_statistics import RedisStatisticsStore

    return await RedisStatisticsStore.open(redis_address(url), enabled=enabled)


def _name_file(rest: str, what: str) -> Path:
    """The file beside that of the store for something that has one of its own."""
    path = _parse_sqlite_path(rest)
    return path.with_name(f"{path.stem}-{what}.db")


def _parse_sqlite_path(rest: str) -> Path:
    if not rest.startswith("///") or not rest.strip("/.") or rest.endswith("/"):
        raise StoreError("Write a SQLite store as sqlite:///./data/gateway.db, an absolute path with four slashes.")
    return Path(rest.removeprefix("///"))


async def _open_redis(url: str, timeouts: RedisTimeouts | None) -> Stores:
    # A gateway without Redis never imports its client.
    from gateway.stores.redis_connection import DEFAULT_TIMEOUTS
    from gateway.stores.redis_content import RedisContentStore
    from gateway.stores.redis_ephemeral import RedisEphemeralStore
    from gateway.stores.redis_records import RedisRecordStore
    from gateway.stores.redis_sessions import RedisSessionStore

    try:
        address = redis_address(url)
    except ValueError as error:
        raise StoreError(f"The address of a Redis store {error}.") from None
    store = await RedisEphemeralStore.open(address, timeouts or DEFAULT_TIMEOUTS)
    connection = store.connection
    records, sessions = RedisRecordStore(connection), RedisSessionStore(connection)
    content, knowledge = RedisContentStore(connection), KnowledgeRecords(connection=connection)
    return Stores(store, records, sessions, content, connection, knowledge)
