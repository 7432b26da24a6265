"""What the rest of the house asks of a store. One file per engine, chosen by URL scheme."""

from collections.abc import Sequence
from typing import Protocol


class EphemeralStore(Protocol):
    """Key-values that may expire: hidden turns, copies of links, the workspace secret."""

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Keep `value` under `key` for `ttl` seconds (None: for good), replacing what was there.

        Raises StoreError when it could not be kept.
        """
        ...

    async def put_new(self, key: str, value: bytes) -> bytes:
        """Keep `value` for good unless the key exists; return what the key holds now."""
        ...

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The live values among `keys`; a missing or expired key is simply absent."""
        ...

    async def close(self) -> None:
        """Release files and threads; the store is not used afterwards."""
        ...
