"""An event loop whose clock stands still while something runs, and jumps to the next timer when nothing does."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, it tells how long it would have waited."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout:
            self.waited += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """Sleeps take no time and are as long as they were meant to be."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.waited


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test of timers that no machine can make late."""

    def run() -> None:
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test())

    return run
