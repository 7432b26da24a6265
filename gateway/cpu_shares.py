"""CPU time that workspaces use: who takes much more than the others gets it at a lower priority."""

import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

HALF_LIFE = 2.0  # seconds after which CPU time counts half
FORGOTTEN = 20  # half-lives after which nobody remembers it
HEAVY = 1.5  # times what workspaces use on average
LEAST_SECONDS = 0.05  # of recent CPU time under which nobody is heavy
NICENESS = 10


class CpuShares:
    """Recent CPU time by workspace; charging and asking take constant time."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        # Both in seconds times `_scale` of the moment: what is older counts less without being touched.
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # and when, the longest ago first
        self._total = 0.0

    def charge(self, workspace: str, seconds: float) -> None:
        """Note CPU time that was used just now."""
        now = self._clock()
        if now - self._start > 100 * HALF_LIFE:
            self._rebase(now)
        amount = seconds * self._scale(now)
        used, _ = self._used.pop(workspace, (0.0, now))
        self._used[workspace] = (used + amount, now)
        self._total += amount
        while (first := next(iter(self._used.values())))[1] < now - FORGOTTEN * HALF_LIFE:
            self._used.popitem(last=False)
            self._total -= first[0]

    def is_heavy(self, workspace: str, active: int) -> bool:
        """Whether it has used much more than the average of so many workspaces that have work now."""
        used, _ = self._used.get(workspace, (0.0, 0.0))
        if active < 2 or used <= LEAST_SECONDS * self._scale(self._clock()):
            return False
        return used > HEAVY * self._total / active

    def _scale(self, now: float) -> float:
        return float(2.0 ** ((now - self._start) / HALF_LIFE))

    def _rebase(self, now: float) -> None:
        """Begin to count anew, before numbers become too large."""
        scale = self._scale(now)
        self._used = OrderedDict((name, (used / scale, at)) for name, (used, at) in self._used.items())
        self._total /= scale
        self._start = now


def lower_priority() -> None:
    """Let other threads have the CPU first; what this thread does is not urgent. Cannot be taken back."""
    if sys.platform == "linux":  # where a priority belongs to a thread
        with suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
