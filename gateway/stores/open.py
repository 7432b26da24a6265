"""One URL chooses the engine."""

from pathlib import Path

from gateway.errors import StoreError
from gateway.stores.base import EphemeralStore
from gateway.stores.memory import MemoryStore
from gateway.stores.sqlite import SqliteStore


async def open_store(url: str) -> EphemeralStore:
    """The store behind `url`: `memory:`, `sqlite:///relative/file.db` or `sqlite:////absolute/file.db`.

    Raises StoreError for any other URL and when the store cannot be opened.
    """
    scheme, _, rest = url.partition(":")
    match scheme.lower():
        case "memory":
            return MemoryStore()
        case "sqlite":
            return await SqliteStore.open(_path(rest))
    # Only the scheme is repeated: the rest of a URL may hold a password.
    raise StoreError(f"There is no store of kind {scheme!r}; use memory: or sqlite:///./data/gateway.db.")


def _path(rest: str) -> Path:
    if not rest.startswith("///") or not rest.strip("/.") or rest.endswith("/"):
        raise StoreError("A SQLite store is written sqlite:///./data/gateway.db, an absolute path with four slashes.")
    return Path(rest.removeprefix("///"))
