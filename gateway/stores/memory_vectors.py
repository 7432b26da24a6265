"""Vectors in memory, lost at a restart."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gateway.stores.protocols import UNUSED_SECONDS


class MemoryVector(NamedTuple):
    """A vector and when it was used last."""

    value: bytes
    used: float


class MemoryVectorStore:
    """A VectorStore for one process."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._vectors: dict[bytes, MemoryVector] = {}

    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found = {key: self._vectors[key].value for key in keys if key in self._vectors}
        await self.put_many(found)
        return found

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        now = self._clock()
        self._vectors.update((key, MemoryVector(value, now)) for key, value in vectors.items())

    async def sweep(self) -> int:
        before, oldest = len(self._vectors), self._clock() - UNUSED_SECONDS
        self._vectors = {key: vector for key, vector in self._vectors.items() if vector.used >= oldest}
        return before - len(self._vectors)

    async def close(self) -> None:
        self._vectors.clear()
