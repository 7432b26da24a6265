"""How the C library gives memory back."""

import ctypes
import sys

MMAP_THRESHOLD, ARENA_MAX = -3, -8  # M_MMAP_THRESHOLD and M_ARENA_MAX of mallopt(3)
ARENAS = 2  # the loop's, and one for all other threads; each would keep what it once needed
LARGE_BYTES = 1024 * 1024


def return_large_blocks(*, keeps_arenas: bool = False) -> None:
    """Give blocks of a megabyte and more back to the system as soon as they are free.

    By default glibc raises that threshold up to 32 MB with every such block: large bodies then stay in its heaps, and
    what lives between them keeps the memory of a flood resident. Threads that come later share an arena for the same
    reason: with one each, memory grew by megabytes over a hundred thousand requests although nothing more was in use.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(MMAP_THRESHOLD, LARGE_BYTES)
        if not keeps_arenas:
            library.mallopt(ARENA_MAX, ARENAS)
