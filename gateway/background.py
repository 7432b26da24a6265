"""Background jobs that do not end: one that does is started again, counted, and shown by `/readyz`."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from gateway.cancellation import AGAIN_SECONDS, end_task

log = logging.getLogger(__name__)

FIRST_DELAY = 1.0  # seconds before a job that ended is started again; doubles each time
LONGEST_DELAY = 60.0
HEALTHY_SECONDS = 300.0  # that a job must have run for the delay to begin anew

MakeJob = Callable[[], Coroutine[Any, Any, object]]


class JobState(msgspec.Struct):
    """How a job fares."""

    running: bool = False
    restarts: int = 0
    error: str | None = None  # why it ended last


class BackgroundJobs:
    """The jobs of one process."""

    def __init__(
        self,
        *,
        first_delay: float = FIRST_DELAY,
        cancel_again: float = AGAIN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first_delay, self._cancel_again = first_delay, cancel_again
        self._clock = clock
        self._endless: dict[str, MakeJob] = {}
        self._finite: dict[str, MakeJob] = {}
        self._tasks: dict[str, asyncio.Task[object]] = {}  # the jobs themselves, by name
        self.states: dict[str, JobState] = {}

    def add(self, name: str, make: MakeJob) -> None:
        """A job that must not end; `make` starts it, the first time and again."""
        self._endless[name] = make
        self.states[name] = JobState()

    def add_once(self, name: str, make: MakeJob) -> None:
        """Work that ends by itself and can wait until the gateway listens; that it failed is logged."""
        self._finite[name] = make

    @property
    def restarts(self) -> Mapping[tuple[str, ...], float]:
        """How often each job was started again."""
        return {(name,): state.restarts for name, state in self.states.items()}

    def describe(self) -> dict[str, dict[str, Any]]:
        """The state of each job."""
        return {name: asdict(state) for name, state in self.states.items()}

    def cancel(self, name: str) -> None:
        """End a job, as a failure would."""
        self._tasks[name].cancel()

    @contextlib.asynccontextmanager
    async def running(self, listening: asyncio.Event | None = None) -> AsyncGenerator[None]:
        """Run all jobs until the block ends, those that end by themselves once `listening` is set."""
        loop = asyncio.get_running_loop()
        work = [self._keep_running(name, make) for name, make in self._endless.items()]
        work += [self._run_once(name, make, listening) for name, make in self._finite.items()]
        supervisors = [loop.create_task(one) for one in work]
        try:
            yield
        finally:
            for task in supervisors:
                task.cancel()
            await asyncio.gather(*supervisors, return_exceptions=True)

    async def _keep_running(self, name: str, make: MakeJob) -> None:
        state, delay = self.states[name], self._first_delay
        while True:
            started = self._clock()
            state.running = True
            error = await self._run_to_end(name, make)
            state.running = False
            state.error = repr(error)[:500]
            if self._clock() - started > HEALTHY_SECONDS:
                delay = self._first_delay
            log.error("the job %r has ended and starts again in %g s: %r", name, delay, error, exc_info=error)
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY)
            state.restarts += 1

    async def _run_once(self, name: str, make: MakeJob, listening: asyncio.Event | None) -> None:
        if listening is not None:
            await listening.wait()
        error = await self._run_to_end(name, make)
        if error is not None:
            log.error("%s has failed: %r", name, error, exc_info=error)

    async def _run_to_end(self, name: str, make: MakeJob) -> BaseException | None:
        """Run a job in a task of its own; why it ended, None if it returned."""
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(make())
        self._tasks[name] = task
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            await end_task(task, f"the job {name!r}", self._cancel_again)
            raise
        return asyncio.CancelledError("it was cancelled") if task.cancelled() else task.exception()
