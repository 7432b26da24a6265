"""One URL chooses the engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gateway.domain.redis_address import SCHEMES, redis_address
from gateway.errors import StoreError
from gateway.stores.memory_ephemeral import MemoryStore
from gateway.stores.memory_records import MemoryRecords
from gateway.stores.protocols import EphemeralStore, RecordStore
from gateway.stores.sqlite_ephemeral import SqliteStore
from gateway.stores.sqlite_records import SqliteRecords


class Link(Protocol):
    """The way to a server."""

    @property
    def breaker_open(self) -> bool:
        """Whether it is left alone because it does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """What one URL stands for: both stores live in the same file or on the same server."""

    ephemeral: EphemeralStore
    records: RecordStore
    link: Link | None = None  # to a server, if there is one

    @property
    def breaker_open(self) -> bool:
        """Whether the stores' server is left alone because it does not answer; files have no breaker."""
        return self.link is not None and self.link.breaker_open

    async def close(self) -> None:
        """Release files, threads and connections; neither store is used afterwards."""
        await self.ephemeral.close()


async def open_stores(url: str) -> Stores:
    """The stores behind `memory:`, `sqlite:///relative/file.db`, `sqlite:////absolute/file.db` or `redis://host`.

    Raises StoreError for any other URL and when a file cannot be opened; a Redis server may also come up later.
    """
    scheme, _, rest = url.partition(":")
    match scheme.lower():
        case "memory":
            return Stores(MemoryStore(), MemoryRecords())
        case "sqlite":
            store = await SqliteStore.open(_path(rest))
            return Stores(store, SqliteRecords(store.lanes))
        case known if known in SCHEMES:
            return await _redis(url)
    # Only the scheme is repeated: the rest of a URL may hold a password.
    raise StoreError(f"There is no store of kind {scheme!r}; use memory:, sqlite:///./data/gateway.db or redis://host.")


def _path(rest: str) -> Path:
    if not rest.startswith("///") or not rest.strip("/.") or rest.endswith("/"):
        raise StoreError("A SQLite store is written sqlite:///./data/gateway.db, an absolute path with four slashes.")
    return Path(rest.removeprefix("///"))


async def _redis(url: str) -> Stores:
    from gateway.stores.redis_ephemeral import RedisStore  # a gateway without Redis never imports its client
    from gateway.stores.redis_records import RedisRecords

    try:
        address = redis_address(url)
    except ValueError as error:
        raise StoreError(f"The address of a Redis store {error}.") from None
    store = await RedisStore.open(address)
    return Stores(store, RedisRecords(store.link), store.link)
