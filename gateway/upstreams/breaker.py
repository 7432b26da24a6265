"""When an upstream keeps failing, others are tried first."""

from collections.abc import Callable
from enum import StrEnum


class BreakerState(StrEnum):
    """What a breaker lets through."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


class CircuitBreaker:
    """Opens after consecutive failures; then one call per interval may find out whether the upstream is back."""

    __slots__ = ("_clock", "_failures", "_seconds", "_threshold", "_until")

    def __init__(self, clock: Callable[[], float], *, threshold: int = 5, seconds: float = 10) -> None:
        self._clock, self._threshold, self._seconds = clock, threshold, seconds
        self._failures = 0
        self._until = 0.0

    @property
    def state(self) -> BreakerState:
        if self._failures < self._threshold:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._clock() < self._until else BreakerState.HALF_OPEN

    @property
    def ready(self) -> bool:
        """Whether a call is worth trying now."""
        return self.state is not BreakerState.OPEN

    def begin(self) -> None:
        """A call starts. A probe closes the door behind it; if it never reports back, the next interval has another."""
        if self._failures >= self._threshold:
            self._until = self._clock() + self._seconds

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self) -> None:
        self._failures += 1
        if self._failures >= self._threshold:
            self._until = self._clock() + self._seconds
