"""Recent CPU time of workspaces: who uses much more than the others."""

import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar

BACKGROUND = "\0background"  # work of nobody: it takes its turn, but no workspace gets less because of it
HALF_LIFE = 2.0  # seconds after which CPU time counts half
FORGOTTEN = 20  # half-lives after which nobody remembers it
HEAVY = 1.5  # times what the others use on average
LEAST_SECONDS = 0.3  # of recent CPU time under which nobody is heavy: what a tenth of a core comes to


class CpuShares:
    """Recent CPU time by workspace; charging and asking take constant time."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        # Both in seconds times `_scale` of the moment: what is older counts less without being touched.
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # and when, the longest ago first
        self._total = 0.0

    def charge(self, workspace: str, seconds: float) -> None:
        """Note CPU time that was used just now; what background work uses is nobody's."""
        if workspace == BACKGROUND:
            return
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

    @property
    def is_used(self) -> bool:
        """Whether any CPU time is remembered."""
        return bool(self._used)

    def is_heavy(self, workspace: str, active: int) -> bool:
        """Whether it has used much more than the others, of so many workspaces that have work now, on average."""
        used, _ = self._used.get(workspace, (0.0, 0.0))
        if active < 2 or used <= LEAST_SECONDS * self._scale(self._clock()):
            return False
        return used > HEAVY * (self._total - used) / (active - 1)

    def _scale(self, now: float) -> float:
        return float(2.0 ** ((now - self._start) / HALF_LIFE))

    def _rebase(self, now: float) -> None:
        """Begin to count anew, before numbers become too large."""
        scale = self._scale(now)
        self._used = OrderedDict((name, (used / scale, at)) for name, (used, at) in self._used.items())
        self._total /= scale
        self._start = now


# CPU time of processes that the work at hand has waited for; each thread has a context, and so a sum, of its own.
PROCESS_SECONDS: ContextVar[float] = ContextVar("PROCESS_SECONDS")


def count_process_time(seconds: float) -> None:
    """Charge the CPU time of a process to the work that runs in this thread and has waited for it."""
    PROCESS_SECONDS.set(PROCESS_SECONDS.get(0.0) + seconds)
