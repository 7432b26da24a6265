"""Shares places for work among workspaces: in turn and within bounds, so that nobody waits for what another queued.

Who takes much more CPU time than the others gets it at a lower priority.
"""

import asyncio
import contextlib
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import ParamSpec, Protocol, TypeVar, runtime_checkable

from gateway.errors import WorkspaceBusy
from gateway.precedence import Precedence
from gateway.queue_bounds import BACKGROUND, REQUEST_BOUNDS, QueueBounds
from gateway.work_threads import PROCESS_SECONDS, lower_priority

ACTIVE_SECONDS = 5.0  # after it last asked, a workspace is expected back: its share is not given away meanwhile
HALF_LIFE = 1.0  # seconds after which CPU time counts half
FORGOTTEN = 20  # half-lives after which nobody remembers it
HEAVY = 1.5  # times what the others use on average
LEAST_SECONDS = 0.3  # of recent CPU time under which nobody is heavy: what a fifth of a core comes to
WAITING_SECONDS = 0.02  # of CPU time that a piece of work counts for while it waits: a burst is heavy at once
LOOP_SECONDS = 0.0005  # that a piece of work takes of the event loop, which hands it to a thread and its result on
LOCK_RESTS = 2.0  # times what work has used that holds the interpreter's lock: everybody waits for it
MOST_REST = 2.0  # seconds that a heavy workspace waits after a piece of its work

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Waiting = OrderedDict[asyncio.Future[None], None]  # in the order of arrival; any of them is removed in constant time
Line = OrderedDict[str, None]  # of workspaces


class CpuShares:
    """Recent CPU time by workspace, and work that waits for it; charging and asking take constant time."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # seconds, and when; the longest ago first
        self._total = (0.0, 0.0)
        self._waiting: Counter[str] = Counter()  # pieces of work
        self._all_waiting = 0

    def charge(self, workspace: str, seconds: float) -> None:
        """Note CPU time that was used just now; what background work uses is nobody's."""
        if workspace == BACKGROUND:
            return
        now = self._clock()
        used = _decay(self._used.pop(workspace, (0.0, now)), now)
        self._used[workspace] = (used + seconds, now)
        self._total = (_decay(self._total, now) + seconds, now)
        while next(iter(self._used.values()))[1] < now - FORGOTTEN * HALF_LIFE:
            self._used.popitem(last=False)

    def expect(self, workspace: str, pieces: int) -> None:
        """Note that so many more pieces of work wait, or fewer."""
        if workspace != BACKGROUND:
            self._waiting[workspace] += pieces
            self._all_waiting += pieces
            if not self._waiting[workspace]:
                del self._waiting[workspace]

    @property
    def is_used(self) -> bool:
        """Whether any CPU time is remembered."""
        return bool(self._used)

    def is_heavy(self, workspace: str, active: int) -> bool:
        """Whether it has used much more than the others, of so many workspaces that have work now, on average."""
        if active < 2:
            return False
        now = self._clock()
        used = _decay(self._used.get(workspace, (0.0, now)), now) + WAITING_SECONDS * self._waiting[workspace]
        total = _decay(self._total, now) + WAITING_SECONDS * self._all_waiting
        return used > LEAST_SECONDS and used > HEAVY * (total - used) / (active - 1)


def _decay(seconds_and_time: tuple[float, float], now: float) -> float:
    """What is left of an amount of CPU time now."""
    seconds, at = seconds_and_time
    return float(seconds * 0.5 ** ((now - at) / HALF_LIFE))


class FairQueue:
    """Hands out places, to one workspace after the other; taking and releasing one takes constant time.

    Workspaces that have asked for places lately have equal shares of them, and at least one each; where CPU time is
    counted, those that use little of it are not kept to that. Who has no place comes first, and may take a spare one.
    """

    def __init__(self, bounds: QueueBounds, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._active: OrderedDict[str, float] = OrderedDict()  # when workspaces asked last, the longest ago first
        self._compared = self._active  # the workspaces among which one may be heavy
        self._free, self._running = bounds.places, dict[str, int]()
        self._waiting: dict[str, Waiting] = {}
        # Workspaces that wait and may start, the first goes next: those that have no place, those that have some, and
        # heavy ones that have some.
        self._lines: tuple[Line, Line, Line] = (OrderedDict(), OrderedDict(), OrderedDict())
        self._unserved, self._served, self._heavy = self._lines
        self.shares = CpuShares(clock=clock)  # CPU time of work that had a place
        self.precedence = Precedence(self.is_heavy, clock=clock)
        self.shed = 0  # work that was rejected

    def follow(self, cores: "FairQueue") -> None:
        """Judge who is heavy by all that has places there: CPU time of this queue's work is charged there too."""
        self.shares, self._compared = cores.shares, cores._active

    async def acquire(self, workspace: str) -> None:
        """Return with a place; raises WorkspaceBusy if too much of this workspace's work is waiting."""
        self.note_activity(workspace)
        if workspace not in self._waiting and self._may_start(workspace):
            self._take(workspace)
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._enqueue(workspace, place)
        self._start_ready()
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._dequeue(workspace, place)
            elif place.exception() is None:
                self.release(workspace)  # it was given a place at that very moment
            raise

    def release(self, workspace: str, rest: float = 0.0) -> None:
        """Give back a place: others may have it at once, this workspace after a rest of so many seconds."""
        self._free += 1
        if rest:
            asyncio.get_running_loop().call_later(rest, self._end_use, workspace)
            self._start_ready()
        else:
            self._end_use(workspace)

    def _end_use(self, workspace: str) -> None:
        self._running[workspace] -= 1
        if not self._running[workspace]:
            del self._running[workspace]
        if workspace in self._waiting:
            self._line_up(workspace)
        self._start_ready()

    @asynccontextmanager
    async def hold(self, workspace: str) -> AsyncGenerator[None]:
        """A place for the block; raises WorkspaceBusy."""
        await self.acquire(workspace)
        try:
            yield
        finally:
            self.release(workspace)

    def is_heavy(self, workspace: str) -> bool:
        """Whether a workspace uses much more CPU time than others who have work now; background work always does."""
        return workspace == BACKGROUND or self.shares.is_heavy(workspace, len(self._compared))

    def compute_rest(self, workspace: str, seconds: float) -> float:
        """For how long a workspace has to wait that has earned so long a rest: only the heavy do."""
        return min(seconds, MOST_REST) if workspace != BACKGROUND and self.is_heavy(workspace) else 0.0

    def _compute_share(self, workspace: str) -> int:
        """The places that a workspace may have now: where CPU time is counted, only the heavy are kept to an equal one.

        The others need more, because each piece of their work takes longer beside the heavy.
        """
        active, most = len(self._compared), self._bounds.each
        if self.shares.is_used:
            if not self.shares.is_heavy(workspace, active):
                return most
            most -= 1  # wherever the others are active: not only in this queue
        return max(1, min(most, self._bounds.places // max(1, active)))

    def note_activity(self, workspace: str) -> None:
        """A workspace wants something now, and is expected back for a while."""
        now = self._clock()
        if workspace != BACKGROUND:
            self._active[workspace] = now
            self._active.move_to_end(workspace)
        while self._active and next(iter(self._active.values())) < now - ACTIVE_SECONDS:
            self._active.popitem(last=False)

    def _take(self, workspace: str) -> None:
        self._free -= 1
        self._running[workspace] = self._running.get(workspace, 0) + 1

    def _may_start(self, workspace: str) -> bool:
        has_place = self._has_place(self._choose_line(workspace))
        return has_place and self._running.get(workspace, 0) < self._compute_share(workspace)

    def _choose_line(self, workspace: str) -> Line:
        """Where a workspace waits now."""
        if workspace not in self._running:
            return self._unserved
        return self._heavy if self.is_heavy(workspace) else self._served

    def _has_place(self, line: Line) -> bool:
        """Whether there is a place for one who waits there; the last spare one is for workspaces that have none."""
        if line is self._heavy:
            return self._free > 0
        return self._free > (-self._bounds.spare if line is self._unserved else min(0, 1 - self._bounds.spare))

    def _line_up(self, workspace: str) -> None:
        """Put a workspace that waits at the end of its line, unless it is there."""
        line = self._choose_line(workspace)
        if workspace not in line:
            self._leave_lines(workspace)
            line[workspace] = None

    def _leave_lines(self, workspace: str) -> None:
        for line in self._lines:
            line.pop(workspace, None)

    def _start_ready(self) -> None:
        while line := next((line for line in self._lines if line and self._has_place(line)), None):
            workspace, _ = line.popitem(last=False)
            if self._choose_line(workspace) is line:
                self._start_next(workspace)
            else:
                self._line_up(workspace)  # it has become heavy, or is no longer

    def _start_next(self, workspace: str) -> None:
        if self._running.get(workspace, 0) >= self._compute_share(workspace):
            return  # its share has become smaller; it is ready again when its own work ends
        waiting = self._waiting[workspace]
        place, _ = waiting.popitem(last=self._bounds.newest_first)
        if not waiting:
            del self._waiting[workspace]
        if not place.done():  # one that was cancelled is about to leave the queue by itself
            self._take(workspace)
            place.set_result(None)
        if waiting and self._running.get(workspace, 0) < self._compute_share(workspace):
            self._line_up(workspace)

    def _enqueue(self, workspace: str, place: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(workspace) or OrderedDict()
        if len(waiting) >= self._bounds.waiting:
            self.shed += 1
            busy = WorkspaceBusy(f"{len(waiting)} pieces of work of this workspace are already waiting. Retry later.")
            if not (self._bounds.newest_first and waiting):
                raise busy
            oldest, _ = waiting.popitem(last=False)
            if not oldest.done():
                oldest.set_exception(busy)
        waiting[place] = None
        self._waiting[workspace] = waiting
        # If it has its share already, it is ready when its own work ends.
        if self._running.get(workspace, 0) < self._compute_share(workspace):
            self._line_up(workspace)

    def _dequeue(self, workspace: str, place: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(workspace)
        if waiting is None or place not in waiting:
            return
        del waiting[place]
        if not waiting:
            del self._waiting[workspace]
            self._leave_lines(workspace)


@runtime_checkable
class CoreUser(Protocol):
    """Something that computes in threads of its own."""

    def share_cores(self, cores: FairQueue) -> None:
        """Compute only while there is a place among all threads of the process."""
        ...


def hand_over(done: "Future[Result]", outcome: "asyncio.Future[Result]") -> None:
    """Give the result of a thread to whoever waits for it, if anybody still does."""
    if outcome.done():
        return
    if done.cancelled():
        outcome.cancel()
    elif (error := done.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(done.result())


class FairThreads:
    """Threads whose work is shared out among workspaces.

    With `yields`, work of workspaces that use much more CPU time than others has a low priority. Only for work that
    does not hold the interpreter's lock: a thread that waits for the CPU with it would stop everybody. With `rests`,
    such a workspace waits after each piece of work for so many times what that has used, with work of any kind.
    """

    def __init__(
        self, name: str, bounds: QueueBounds = REQUEST_BOUNDS, *, yields: bool = False, rests: float = 0.0
    ) -> None:
        self.queue = FairQueue(bounds)
        self._rests = rests
        self._cores: FairQueue | None = None  # places of all threads together
        most = bounds.places + bounds.spare
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)
        self._low_pool = (
            ThreadPoolExecutor(most, thread_name_prefix=f"{name}-low", initializer=lower_priority) if yields else None
        )  # threads are started when they are needed

    def share_cores(self, cores: FairQueue) -> None:
        """As CoreUser, beside the places of its own."""
        self._cores = cores
        self.queue.follow(cores)

    def answering(self, workspace: str) -> contextlib.AbstractContextManager[None]:
        """The time that a question takes, in which heavy workspaces start nothing."""
        return contextlib.nullcontext() if self._cores is None else self._cores.precedence.answering(workspace)

    def charge_to(self, cores: FairQueue) -> None:
        """Charge CPU time there without taking places: for work that waits for processes of low priority."""
        self.queue.follow(cores)

    async def run(
        self, workspace: str, work: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """What `work` returns; raises WorkspaceBusy. Work that nobody waits for any more keeps its place to its end."""
        await self._acquire(workspace)
        loop = asyncio.get_running_loop()
        used = 0.0

        def run_timed() -> Result:
            nonlocal used
            began = time.thread_time()
            PROCESS_SECONDS.set(0.0)
            try:
                return work(*args, **kwargs)
            finally:
                used = time.thread_time() - began + PROCESS_SECONDS.get()

        def finish(done: Future[Result]) -> None:
            self._finish(workspace, used + LOOP_SECONDS)
            hand_over(done, outcome)

        def wake_loop(done: Future[Result]) -> None:
            # Once for both: whenever the loop wakes up, it fights with this thread for the interpreter.
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(finish, done)

        # Neither function may refer to the thread's future: it refers to them, and a large result would wait for the
        # garbage collection.
        outcome: asyncio.Future[Result] = loop.create_future()
        try:
            self._choose_pool(workspace).submit(run_timed).add_done_callback(wake_loop)
        except RuntimeError:  # the threads are closed
            self._release(workspace)
            raise
        return await outcome

    async def run_here(
        self, workspace: str, work: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """The same on the event loop: for what takes about a millisecond, since a thread costs more than that.

        It waits for a place, is charged and earns a rest like all other work.
        """
        await self._acquire(workspace)
        began = time.thread_time()
        try:
            return work(*args, **kwargs)
        finally:
            self._finish(workspace, time.thread_time() - began)

    async def _acquire(self, workspace: str) -> None:
        self.queue.shares.expect(workspace, 1)
        try:
            await self.queue.acquire(workspace)
            if self._cores is not None:
                try:
                    await self._cores.precedence.let_pass(workspace)
                    await self._cores.acquire(workspace)
                except BaseException:
                    self.queue.release(workspace)
                    raise
        finally:
            self.queue.shares.expect(workspace, -1)

    def _choose_pool(self, workspace: str) -> ThreadPoolExecutor:
        if self._low_pool is not None and self.queue.is_heavy(workspace):
            return self._low_pool
        return self._pool

    def _finish(self, workspace: str, used: float) -> None:
        """Charge what some work has used, and give back its place."""
        self.queue.shares.charge(workspace, used)
        self._release(workspace, self.queue.compute_rest(workspace, self._rests * used))

    def _release(self, workspace: str, rest: float = 0.0) -> None:
        self.queue.release(workspace, rest)
        if self._cores is not None:
            self._cores.release(workspace, rest)  # else it would do something else meanwhile

    def close(self) -> None:
        """Start nothing any more; what runs is not waited for."""
        for pool in (self._pool, self._low_pool):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
