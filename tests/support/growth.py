"""Measures how the CPU time of a function grows with the length of its input."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

STEPS = (1, 2, 4, 8)
LIMIT = 1.5  # linear is 1, quadratic 2; what is fixed makes it less, caches and sorting a little more
FLOOR = 0.004  # seconds under which the longest input is too quick to tell
GIVE_UP = 0.5  # seconds after which longer inputs are not tried: that is too slow anyway
RUNS, SURE_RUNS = 1, 3

Work = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Growth:
    """The times of one function on one family of inputs."""

    seconds: tuple[float, ...]  # of n, 2n, 4n, 8n

    @property
    def exponent(self) -> float:
        """1 for linear growth; 0 where it is too quick to tell, infinite where even the shortest input takes long."""
        if self.seconds[-1] < FLOOR:
            return 0.0
        if len(self.seconds) < 2:
            return math.inf
        return math.log(self.seconds[-1] / max(self.seconds[0], 1e-6)) / math.log(STEPS[len(self.seconds) - 1])

    @property
    def is_steep(self) -> bool:
        return self.exponent > LIMIT


def measure_growth(work: Work, make: Callable[[int], Any], size: int) -> Growth:
    """The times on inputs of `size` and its multiples; what looks steep is measured again, the best runs count."""
    inputs = [make(size * step) for step in STEPS]
    growth = Growth(_measure(work, inputs, RUNS))
    return Growth(_measure(work, inputs, SURE_RUNS)) if growth.is_steep else growth


def _measure(work: Work, inputs: list[Any], runs: int) -> tuple[float, ...]:
    seconds: list[float] = []
    for one in inputs:
        seconds.append(min(_time(work, one) for _ in range(runs)))
        if seconds[-1] > GIVE_UP:
            break
    return tuple(seconds)


def _time(work: Work, argument: Any) -> float:
    # CPU time of this thread: other threads and a loaded machine do not count.
    start = time.thread_time()
    work(argument)
    return time.thread_time() - start
