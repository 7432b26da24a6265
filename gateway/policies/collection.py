"""Garbage collection around policies, which are many objects that live long."""

import asyncio
import gc

FULL_COLLECTION_SWAPS = 2048  # after so many swaps all objects are examined: the event loop stops for about 75 ms
FREEZE_SECONDS = 30.0  # in which all changes of workspaces are frozen once: each time the loop stops for up to 40 ms


def freeze_gc(*, full: bool) -> None:
    """Exempt everything that is alive now from garbage collection.

    A full collection would walk the whole snapshot and stop the event loop for it (35 ms for a big one). Garbage that
    is frozen along with it would stay for ever, so now and then everything is collected all the same.
    """
    if full:
        gc.unfreeze()
        gc.collect()
    else:
        gc.collect(1)  # only young objects: a millisecond, but more where they are long lists
    gc.freeze()


class GarbageFreezer:
    """Freezes policies after they have changed, those of workspaces once for all changes of half a minute."""

    def __init__(self, full_after: int = FULL_COLLECTION_SWAPS) -> None:
        self._full_after = full_after
        self._examined = 0  # the number of the generation in which all objects were examined
        self._timer: asyncio.TimerHandle | None = None

    def freeze(self, number: int) -> None:
        """Freeze what is alive in the generation with this number."""
        self.stop()
        full = number - self._examined >= self._full_after
        if full:
            self._examined = number
        freeze_gc(full=full)

    def freeze_soon(self, number: int) -> None:
        """The same in half a minute, with whatever comes until then."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FREEZE_SECONDS, self.freeze, number)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
