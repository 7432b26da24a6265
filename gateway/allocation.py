"""How the C library gives memory back."""

import ctypes
import sys

MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of mallopt(3)
LARGE_BYTES = 1024 * 1024


def return_large_blocks() -> None:
    """Give blocks of a megabyte and more back to the system as soon as they are free.

    By default glibc raises that threshold up to 32 MB with every such block: large bodies then stay in its heaps, and
    what lives between them keeps the memory of a flood resident.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(MMAP_THRESHOLD, LARGE_BYTES)
