"""How the C library gives memory back."""

import asyncio
import ctypes
import mmap
import sys
from collections.abc import Callable, Collection
from pathlib import Path

ARENAS = 2  # the loop's, and one for all other threads; each would keep what it once needed
LARGE_BYTES = 1024 * 1024
SPARE_BYTES = 16 * 1024 * 1024  # that a heap keeps at its end, for the next bodies
# Numbers of mallopt(3) and our values, by the names of glibc's tunables.
OPTIONS = {"mmap_threshold": (-3, LARGE_BYTES), "trim_threshold": (-1, SPARE_BYTES), "arena_max": (-8, ARENAS)}
LOOK_SECONDS, LONGEST_PAUSE = 30.0, 600.0
GROWTH_BYTES = 48 * 1024 * 1024  # more than the least that was ever resident: from there on heaps are looked through
WORTHWHILE_BYTES = 16 * 1024 * 1024  # that are given back
STATM = Path("/proc/self/statm")


def return_large_blocks(kept: Collection[str] = ()) -> None:
    """Give blocks of a megabyte and more back to the system as soon as they are free.

    By default glibc raises that threshold up to 32 MB with every such block: large bodies then stay in its heaps, and
    what lives between them keeps the memory of a flood resident. Threads that come later share an arena for the same
    reason: with one each, memory grew by megabytes over a hundred thousand requests although nothing more was in use.

    Smaller blocks are worth keeping: by default more than 128 KB at the end of a heap go back at once, and every few
    bodies of 30 KB fetched them again, page by page. `kept` are options that stay as they are.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        for name in OPTIONS.keys() - set(kept):
            library.mallopt(*OPTIONS[name])


def return_free_pages() -> None:
    """Give back all pages in which nothing is left; who allocates meanwhile waits, ten milliseconds for 300 MB."""
    if hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(SPARE_BYTES)


def read_resident_bytes() -> int:
    """The memory of this process that is in use or was not given back; 0 where the system does not tell."""
    try:
        return int(STATM.read_bytes().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


class FreePages:
    """Gives back what a flood has left: between bodies that come and go something always stays, and holds its page."""

    def __init__(self, measure: Callable[[], int] = read_resident_bytes) -> None:
        self._measure = measure
        self._least = measure()

    async def run(self) -> None:
        """Look every half minute until cancelled; less often while there is nothing to give back."""
        pause = LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            resident = self._measure()
            self._least = min(self._least, resident)
            if resident - self._least <= GROWTH_BYTES:
                pause = LOOK_SECONDS
                continue
            await asyncio.to_thread(return_free_pages)
            helped = resident - self._measure() > WORTHWHILE_BYTES
            pause = LOOK_SECONDS if helped else min(2 * pause, LONGEST_PAUSE)
