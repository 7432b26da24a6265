"""One URL chooses the engine."""

from pathlib import Path

from gateway.domain.redis_address import SCHEMES, redis_address
from gateway.errors import StoreError
from gateway.stores.base import EphemeralStore
from gateway.stores.memory import MemoryStore
from gateway.stores.sqlite import SqliteStore


async def open_store(url: str) -> EphemeralStore:
    """The store behind `url`: `memory:`, `sqlite:///relative/file.db`, `sqlite:////absolute/file.db` or `redis://host`.

    Raises StoreError for any other URL and when a file cannot be opened; a Redis server may also come up later.
    """
    scheme, _, rest = url.partition(":")
    match scheme.lower():
        case "memory":
            return MemoryStore()
        case "sqlite":
            return await SqliteStore.open(_path(rest))
        case known if known in SCHEMES:
            return await _redis(url)
    # Only the scheme is repeated: the rest of a URL may hold a password.
    raise StoreError(f"There is no store of kind {scheme!r}; use memory:, sqlite:///./data/gateway.db or redis://host.")


def _path(rest: str) -> Path:
    if not rest.startswith("///") or not rest.strip("/.") or rest.endswith("/"):
        raise StoreError("A SQLite store is written sqlite:///./data/gateway.db, an absolute path with four slashes.")
    return Path(rest.removeprefix("///"))


async def _redis(url: str) -> EphemeralStore:
    from gateway.stores.redis import RedisStore  # a gateway without Redis never imports its client

    try:
        address = redis_address(url)
    except ValueError as error:
        raise StoreError(f"The address of a Redis store {error}.") from None
    return await RedisStore.open(address)
