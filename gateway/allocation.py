"""How the C library gives memory back."""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8  # M_TRIM_THRESHOLD and others of mallopt(3)
ARENAS = 2  # the loop's, and one for all other threads; each would keep what it once needed
LARGE_BYTES = 1024 * 1024
SPARE_BYTES = 16 * 1024 * 1024  # that a heap keeps at its end, for the next bodies


def return_large_blocks(*, keeps_arenas: bool = False) -> None:
    """Give blocks of a megabyte and more back to the system as soon as they are free.

    By default glibc raises that threshold up to 32 MB with every such block: large bodies then stay in its heaps, and
    what lives between them keeps the memory of a flood resident. Threads that come later share an arena for the same
    reason: with one each, memory grew by megabytes over a hundred thousand requests although nothing more was in use.

    Smaller blocks are worth keeping: by default more than 128 KB at the end of a heap go back at once, and every few
    bodies of 30 KB fetched them again, page by page.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(MMAP_THRESHOLD, LARGE_BYTES)
        library.mallopt(TRIM_THRESHOLD, SPARE_BYTES)
        if not keeps_arenas:
            library.mallopt(ARENA_MAX, ARENAS)
