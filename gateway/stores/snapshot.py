"""Holds the snapshot that new requests work with; a reload swaps it or keeps the old one."""

import asyncio
import gc
from collections.abc import Callable

from gateway.domain.snapshot import EMPTY, Snapshot
from gateway.errors import Faults


class SnapshotHolder:
    """The current snapshot. Readers take `current` once per request; it never changes under them."""

    def __init__(self, load: Callable[[int], Snapshot]) -> None:
        self._load = load
        self._turn = asyncio.Lock()
        self.current = EMPTY
        self.error: str | None = None  # why the last reload kept the old snapshot

    @property
    def generation(self) -> int:
        return self.current.generation

    def start(self) -> None:
        """The first load; Faults pass, because a server without its policies must not start."""
        self._swap(self._load(1))

    async def reload(self) -> bool:
        """Load again off the loop; True if the snapshot was swapped, else `error` says why not."""
        async with self._turn:
            try:
                fresh = await asyncio.to_thread(self._load, self.generation + 1)
            except Faults as faults:
                self.error = str(faults)
                return False
            self._swap(fresh)
            return True

    def _swap(self, fresh: Snapshot) -> None:
        self.current, self.error = fresh, None
        # A full collection would walk the whole snapshot and stop the loop for it (35 ms for a big one).
        gc.freeze()
