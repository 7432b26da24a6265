"""How urgent the work of a thread is to the operating system."""

import contextlib
import os
import sys
import threading

NICENESS = 10


def lower_priority() -> None:
    """Let other threads have the CPU first; what this thread does is not urgent. Cannot be taken back."""
    if sys.platform == "linux":  # where a priority belongs to a thread
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
