"""A circuit breaker: while something keeps failing, it is left alone for a while."""

from collections.abc import Callable
from enum import StrEnum


class BreakerState(StrEnum):
    """What a breaker lets through: every call, one probe, or none."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


class CircuitBreaker:
    """Opens after consecutive failures; then one call per interval may find out whether the other side is back."""

    __slots__ = ("_clock", "_failures", "_open_until", "_seconds", "_threshold")

    def __init__(self, clock: Callable[[], float], *, threshold: int = 5, seconds: float = 10) -> None:
        self._clock, self._threshold, self._seconds = clock, threshold, seconds
        self._failures = 0
        self._open_until = 0.0

    @property
    def state(self) -> BreakerState:
        if self._failures < self._threshold:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._clock() < self._open_until else BreakerState.HALF_OPEN

    @property
    def is_ready(self) -> bool:
        """Whether a call is worth trying now."""
        return self.state is not BreakerState.OPEN

    def record_start(self) -> None:
        """A call starts. A probe reopens the breaker behind it; if it never ends, the next interval allows another."""
        if self._failures >= self._threshold:
            self._open_until = self._clock() + self._seconds

    def record_success(self) -> None:
        self._failures = 0

    def record_failure(self) -> None:
        self._failures += 1
        if self._failures >= self._threshold:
            self._open_until = self._clock() + self._seconds
