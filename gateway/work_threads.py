"""What threads know of the work in them: its priority, and the CPU time of processes that it waits for."""

import contextlib
import os
import sys
import threading
from contextvars import ContextVar

NICENESS = 10


def lower_priority() -> None:
    """Let other threads have the CPU first; what this thread does is not urgent. Cannot be taken back."""
    if sys.platform == "linux":  # where a priority belongs to a thread
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))


# CPU time of processes that the work at hand has waited for; each thread has a context, and so a sum, of its own.
PROCESS_SECONDS: ContextVar[float] = ContextVar("PROCESS_SECONDS")


def count_process_time(seconds: float) -> None:
    """Charge the CPU time of a process to the work that runs in this thread and has waited for it."""
    PROCESS_SECONDS.set(PROCESS_SECONDS.get(0.0) + seconds)
