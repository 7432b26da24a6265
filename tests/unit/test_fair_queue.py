"""Who gets the next place: one workspace after the other, and nobody pays for what another has queued."""

import asyncio
import gc
import random
import threading
import time
import weakref

import pytest

from gateway.errors import WorkspaceBusy
from gateway.fair_queue import ACTIVE_SECONDS, LOOP_SECONDS, MOST_REST, FairQueue, FairThreads
from gateway.queue_bounds import BACKGROUND, CORE_BOUNDS, CORES, REQUEST_BOUNDS, QueueBounds
from gateway.semantic.model.onnx_embedder import BOUNDS as EMBEDDER_BOUNDS
from gateway.work_threads import count_process_time


class Work:
    """Work that goes on until it is told to end; its workspace is the letter before the number."""

    def __init__(self, bounds: QueueBounds) -> None:
        self.now = 0.0
        self.queue = FairQueue(bounds, clock=lambda: self.now)
        self.begun: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str) -> None:
        for name in names:
            self.ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._do(name))
            await asyncio.sleep(0)

    async def _do(self, name: str) -> None:
        async with self.queue.hold(name[0]):
            self.begun.append(name)
            await self.ends[name].wait()

    async def end(self, name: str) -> None:
        assert name in self.begun
        self.ends[name].set()
        await self.tasks[name]
        await asyncio.sleep(0)

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.gather(self.tasks[name], return_exceptions=True)
        await asyncio.sleep(0)


async def test_workspaces_take_turns_however_much_one_has_queued() -> None:
    work = Work(QueueBounds(places=1, each=1, waiting=100))
    await work.ask("a0", *(f"a{n}" for n in range(1, 6)), "b1", "b2", "c1")
    for name in ("a0", "b1", "c1", "a1", "b2", "a2", "a3", "a4", "a5"):
        await work.end(name)


async def test_a_workspace_never_holds_the_places_that_are_kept_for_others() -> None:
    work = Work(QueueBounds(places=3, each=2, waiting=100))
    await work.ask("a1", "a2", "a3", "a4")
    assert work.begun == ["a1", "a2"]
    await work.ask("b1")
    assert work.begun[-1] == "b1"
    await work.end("b1")
    assert "a3" not in work.begun  # the place stays free for whoever comes next
    await work.end("a1")
    assert "a3" not in work.begun  # b has asked just now: both have equal shares
    work.now += ACTIVE_SECONDS + 1
    await work.ask("a5")
    await work.end("a2")
    assert work.begun[-2:] == ["a3", "a4"]


async def test_who_is_alone_has_more_places_than_who_is_not() -> None:
    work = Work(QueueBounds(places=4, each=4, waiting=100))
    await work.ask(*(f"a{number}" for number in range(8)))
    assert len(work.begun) == 4
    await work.ask("b1", "b2", "b3")
    for name in ("a0", "a1"):
        await work.end(name)
    assert work.begun[4:] == ["b1", "b2"]
    await work.end("a2")
    assert work.begun[6:] == ["a4"]
    await work.end("b1")
    assert work.begun[7:] == ["b3"]


async def test_who_has_no_place_takes_a_spare_one_while_others_hold_all() -> None:
    """Work at a low priority may hold its place for a long time; a newcomer does not wait for it."""
    work = Work(QueueBounds(places=3, each=2, waiting=100, spare=1))
    await work.ask("a1", "a2", "b1", "c1", "a3", "b2")
    assert work.begun == ["a1", "a2", "b1", "c1"]
    await work.ask("d1")
    await work.end("a1")
    assert work.begun[4:] == ["d1"]  # it has none: it comes before those that have one
    await work.end("c1")
    await work.end("d1")
    assert work.begun[5:] == []  # places are free again, but nobody's second
    await work.end("a2")
    assert work.begun[5:] == ["a3"]


@pytest.mark.parametrize("bounds", [REQUEST_BOUNDS, CORE_BOUNDS, EMBEDDER_BOUNDS], ids=["requests", "cores", "texts"])
async def test_a_newcomer_never_waits_for_one_busy_workspace_and_background_work(bounds: QueueBounds) -> None:
    queue = FairQueue(bounds)
    busy = [asyncio.create_task(queue.acquire("busy")) for _ in range(20)]
    background = [asyncio.create_task(queue.acquire(BACKGROUND)) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.wait_for(queue.acquire("newcomer"), 5)
    for task in (*busy, *background):
        task.cancel()
    await asyncio.gather(*busy, *background, return_exceptions=True)


@pytest.mark.parametrize("bounds", [REQUEST_BOUNDS, CORE_BOUNDS, EMBEDDER_BOUNDS], ids=["requests", "cores", "texts"])
async def test_who_is_not_heavy_has_as_many_places_as_alone_whatever_the_heavy_do(bounds: QueueBounds) -> None:
    queue = FairQueue(bounds)
    queue.note_activity("light")
    queue.shares.charge("heavy", 1.0)
    others = [asyncio.create_task(queue.acquire(name)) for name in ("heavy", BACKGROUND) for _ in range(20)]
    await asyncio.sleep(0)
    for _ in range(bounds.each):
        await asyncio.wait_for(queue.acquire("light"), 5)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def test_the_last_step_of_a_question_does_not_wait_for_the_texts_of_another() -> None:
    cores = FairQueue(CORE_BOUNDS)
    for _ in range(CORES):
        await cores.acquire("light")
    await asyncio.wait_for(cores.acquire("light"), 5)


async def test_places_that_the_heavy_may_not_have_go_to_others_when_work_ends() -> None:
    work = Work(QueueBounds(places=2, each=2, waiting=100, spare=2))
    work.queue.note_activity("b")
    work.queue.shares.charge("a", 1.0)
    await work.ask("a1", "c1", "b1", "a2", "b2")
    assert work.begun == ["a1", "c1", "b1"]  # one more is there, for who has none
    await work.end("c1")
    assert work.begun[3:] == ["b2"]
    await work.end("b1")
    await work.end("b2")
    assert work.begun[4:] == []
    await work.end("a1")
    assert work.begun[4:] == ["a2"]


async def test_those_who_have_no_place_take_turns_with_background_work() -> None:
    work = Work(QueueBounds(places=1, each=1, waiting=100))
    await work.ask("a1", "\0x", "b1", "a2")
    for name in ("a1", "\0x", "b1", "a2"):
        await work.end(name)


async def test_background_work_takes_turns_and_nobodys_share() -> None:
    queue = FairQueue(QueueBounds(places=3, each=2, waiting=100))
    await queue.acquire(BACKGROUND)
    for _ in range(2):
        await asyncio.wait_for(queue.acquire("a"), 5)


async def test_only_the_workspace_with_too_much_work_is_told_to_retry() -> None:
    work = Work(QueueBounds(places=1, each=1, waiting=2))
    await work.ask("a1", "a2", "a3", "a4", "b1")
    with pytest.raises(WorkspaceBusy, match="2 pieces of work") as busy:
        await work.tasks["a4"]
    assert (busy.value.status, busy.value.code, busy.value.retry_after) == (429, "workspace_busy", 1.0)
    assert work.queue.shed == 1
    for name in ("a1", "b1", "a2", "a3"):
        await work.end(name)


async def test_with_newest_first_the_oldest_of_the_same_workspace_is_shed() -> None:
    work = Work(QueueBounds(places=1, each=1, waiting=2, newest_first=True))
    await work.ask("a1", "b1", "a2", "a3", "a4")
    await asyncio.sleep(0)
    with pytest.raises(WorkspaceBusy):
        await work.tasks["a2"]
    for name in ("a1", "b1", "a4", "a3"):
        await work.end(name)
    assert work.begun == ["a1", "b1", "a4", "a3"]


async def test_work_that_is_cancelled_while_it_waits_leaves_no_trace() -> None:
    work = Work(QueueBounds(places=1, each=1, waiting=2))
    await work.ask("a1", "a2", "b1")
    await work.cancel("a2")
    await work.end("a1")
    assert work.begun == ["a1", "b1"]
    await work.end("b1")
    assert not work.queue._waiting
    assert not work.queue._running
    assert not work.queue._unserved
    assert not work.queue._served


async def test_a_place_given_to_work_that_is_cancelled_at_that_moment_goes_on() -> None:
    queue = FairQueue(QueueBounds(places=1, each=1, waiting=2))
    await queue.acquire("a")
    second, third = asyncio.create_task(queue.acquire("a")), asyncio.create_task(queue.acquire("a"))
    await asyncio.sleep(0)
    queue.release("a")  # the second has the place now, but has not run yet
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await asyncio.wait_for(third, 5)


@pytest.mark.parametrize("seed", range(20))
async def test_any_mix_of_work_ends_and_cancellations_keeps_the_bounds_and_loses_no_place(seed: int) -> None:
    dice = random.Random(seed)
    bounds = QueueBounds(
        dice.randint(1, 4), dice.randint(1, 3), dice.randint(1, 5), dice.random() < 0.5, spare=dice.randint(0, 2)
    )
    work = Work(bounds)
    for number in range(300):
        name = f"{dice.choice('abcd')}{number}"
        await work.ask(name)
        running = [one for one in work.begun if not work.tasks[one].done()]
        assert len(running) <= bounds.places + bounds.spare
        assert all(sum(one[0] == letter for one in running) <= bounds.each for letter in "abcd")
        if dice.random() < 0.8:
            alive = [one for one, task in work.tasks.items() if not task.done()]
            victim = dice.choice(alive)
            await (work.cancel(victim) if victim not in work.begun or dice.random() < 0.3 else work.end(victim))
    while alive := [one for one, task in work.tasks.items() if not task.done()]:
        began = [one for one in alive if one in work.begun]
        assert began, "something waits although nothing runs"
        await work.end(began[0])
    outcomes = await asyncio.gather(*work.tasks.values(), return_exceptions=True)
    assert all(one is None or isinstance(one, WorkspaceBusy | asyncio.CancelledError) for one in outcomes)
    assert work.queue._free == bounds.places
    assert not work.queue._waiting
    assert not work.queue._running
    assert not work.queue._unserved
    assert not work.queue._served


async def test_threads_run_work_of_others_beside_that_of_a_workspace_that_never_ends() -> None:
    threads, gate = FairThreads("test", QueueBounds(places=2, each=1, waiting=100)), threading.Event()
    try:
        stuck = [asyncio.create_task(threads.run("a", gate.wait, 60)) for _ in range(20)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(threads.run("b", pow, 2, 5), 5) == 32
    finally:
        gate.set()
    await asyncio.gather(*stuck)
    threads.close()


async def test_a_thread_whose_caller_has_left_keeps_its_place_until_it_ends() -> None:
    threads, gate = FairThreads("test", QueueBounds(places=1, each=1, waiting=9)), threading.Event()
    begun, running = threading.Event(), list[int]()

    def work() -> None:
        begun.set()
        gate.wait(60)

    first = asyncio.create_task(threads.run("a", work))
    try:
        assert await asyncio.to_thread(begun.wait, 60)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(threads.run("a", running.append, 1))
        await asyncio.sleep(0.02)
        assert not running
    finally:
        gate.set()
    await asyncio.wait_for(second, 60)
    assert running == [1]
    threads.close()


async def test_short_work_runs_on_the_event_loop_in_its_turn() -> None:
    threads, gate = FairThreads("test", QueueBounds(places=1, each=1, waiting=9)), threading.Event()
    stuck = asyncio.create_task(threads.run("a", gate.wait, 60))
    try:
        await asyncio.sleep(0)
        short = asyncio.create_task(threads.run_here("b", threading.get_ident))
        await asyncio.sleep(0.02)
        assert not short.done()
    finally:
        gate.set()
    assert await asyncio.wait_for(short, 60) == threading.get_ident()
    await stuck
    threads.close()


async def test_short_work_is_charged_and_earns_a_rest(monkeypatch) -> None:
    threads, clock = FairThreads("test", QueueBounds(places=2, each=1, waiting=9), rests=2.0), iter([0.0, 1.5])
    released: list[float] = []
    threads.queue.shares.charge("honest", 0.1)
    threads.queue.note_activity("honest")
    monkeypatch.setattr("gateway.fair_queue.time.thread_time", lambda: next(clock))
    monkeypatch.setattr(threads.queue, "release", lambda name, rest=0.0: released.append(rest))
    with pytest.raises(ZeroDivisionError):
        await threads.run_here("hostile", divmod, 1, 0)
    assert released == [MOST_REST]
    assert threads.queue.shares.is_heavy("hostile", 2)
    threads.close()


async def test_work_that_threads_dropped_when_they_were_closed_is_cancelled() -> None:
    threads = FairThreads("test", QueueBounds(places=2, each=2, waiting=9))
    threads._pool._max_workers, gate = 1, threading.Event()
    stuck, begun = (
        asyncio.create_task(threads.run("a", gate.wait, 60)),
        asyncio.create_task(threads.run("a", pow, 2, 5)),
    )
    try:
        await asyncio.sleep(0.01)
        threads.close()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(begun, 60)
    finally:
        gate.set()
    assert await asyncio.wait_for(stuck, 60)


async def test_where_nothing_may_wait_a_place_that_is_free_again_can_be_had() -> None:
    for newest_first in (False, True):
        queue = FairQueue(QueueBounds(places=1, each=1, waiting=0, newest_first=newest_first))
        await queue.acquire("a")
        with pytest.raises(WorkspaceBusy):
            await queue.acquire("a")
        queue.release("a")
        await asyncio.wait_for(queue.acquire("a"), 60)


async def test_what_work_raises_reaches_its_caller_and_frees_the_place() -> None:
    threads = FairThreads("test", QueueBounds(places=1, each=1, waiting=1))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await threads.run("a", divmod, 1, 0)
    threads.close()
    with pytest.raises(RuntimeError):
        await threads.run("a", divmod, 1, 1)


async def test_the_cost_of_a_place_does_not_depend_on_how_many_wait() -> None:
    def measure(count: int) -> float:
        queue = FairQueue(QueueBounds(1, 1, count))
        loop = asyncio.get_running_loop()
        queue._take("a")
        for number in range(count):
            queue._enqueue(f"w{number % 50}", loop.create_future())
        began = time.process_time()
        queue.release("a")
        for number in range(count - 1):
            queue.release(f"w{number % 50}")
        return (time.process_time() - began) / count

    small = min(measure(1000) for _ in range(3))
    assert min(measure(16_000) for _ in range(3)) < 4 * small


async def test_who_uses_little_is_not_kept_to_an_equal_share() -> None:
    work = Work(QueueBounds(places=3, each=2, waiting=100, spare=1))
    work.queue.shares.charge("a", 1.0)
    await work.ask("b1", "a1", "a2", "b2", "b3")
    assert work.begun == ["b1", "a1", "b2"]
    await work.end("a1")
    assert work.begun[3:] == ["a2"]
    await work.end("b1")
    assert work.begun[4:] == ["b3"]


async def test_a_heavy_workspace_has_one_core_for_all_kinds_of_work_while_another_is_active() -> None:
    cores, gate = FairQueue(QueueBounds(places=3, each=2, waiting=100)), threading.Event()
    kinds = [FairThreads(f"kind-{number}", QueueBounds(places=3, each=2, waiting=100)) for number in range(3)]
    for threads in kinds:
        threads.share_cores(cores)
    running = 0
    counting = threading.Lock()

    def work() -> None:
        nonlocal running
        with counting:
            running += 1
        gate.wait(5)

    assert await kinds[0].run("b", pow, 2, 5) == 32  # another workspace is active
    cores.shares.charge("a", 1.0)
    stuck = [asyncio.create_task(threads.run("a", work)) for threads in kinds for _ in range(3)]
    await asyncio.sleep(0.1)
    assert running == 1
    assert await asyncio.wait_for(kinds[1].run("b", pow, 2, 6), 5) == 64
    gate.set()
    await asyncio.gather(*stuck)
    assert running == 9
    for threads in kinds:
        threads.close()


async def test_work_that_is_cancelled_while_it_waits_for_a_core_gives_back_its_place() -> None:
    cores = FairQueue(QueueBounds(places=1, each=1, waiting=100))
    threads = FairThreads("test", QueueBounds(places=1, each=1, waiting=100))
    threads.share_cores(cores)
    await cores.acquire("a")
    waiting = asyncio.create_task(threads.run("a", pow, 2, 5))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    cores.release("a")
    assert await asyncio.wait_for(threads.run("a", pow, 2, 6), 5) == 64
    threads.close()


async def test_a_place_is_given_to_others_while_the_workspace_that_had_it_rests() -> None:
    queue, begun = FairQueue(QueueBounds(places=1, each=1, waiting=100)), list[str]()

    async def take(name: str) -> None:
        await queue.acquire(name)
        begun.append(name)

    await take("a")
    waiting = [asyncio.create_task(take(name)) for name in ("a", "b")]
    await asyncio.sleep(0)
    queue.release("a", rest=60.0)
    await asyncio.wait_for(waiting[1], 5)
    queue.release("b")
    await asyncio.sleep(0)
    assert begun == ["a", "b"]  # nobody has the place, and still it is not a's turn
    queue._end_use("a")
    await asyncio.wait_for(waiting[0], 5)
    assert begun == ["a", "b", "a"]


async def test_a_heavy_workspace_rests_for_so_many_times_what_its_work_has_used(monkeypatch) -> None:
    rests: list[tuple[str, float]] = []
    bounds = QueueBounds(places=3, each=2, waiting=100)
    for threads in (FairThreads("resting", bounds, rests=2.0), FairThreads("busy", bounds)):
        release = threads.queue.release

        def note(name: str, rest: float = 0.0, release=release) -> None:
            rests.append((name, rest))
            release(name)

        monkeypatch.setattr(threads.queue, "release", note)
        await threads.run("honest", count_process_time, 0.25)  # not heavy
        threads.queue.shares.charge("hostile", 100.0)
        for seconds in (0.25, 1000.0, 0.0):
            await threads.run("hostile", count_process_time, seconds)
        await threads.run(BACKGROUND, count_process_time, 0.25)
        await asyncio.sleep(0)
        threads.close()
    assert [name for name, _ in rests] == 2 * ["honest", *3 * ["hostile"], BACKGROUND]
    least = 2 * LOOP_SECONDS  # what it takes of the event loop counts too
    assert [rest for _, rest in rests[5:]] == 5 * [0.0]
    first, *earned, last = (rest for _, rest in rests[:5])
    assert (first, last) == (0.0, 0.0)
    assert earned == [pytest.approx(0.5 + least, abs=0.2), MOST_REST, pytest.approx(least, abs=0.2)]
    assert earned[2] >= least


async def test_a_workspace_that_rests_does_nothing_of_another_kind_meanwhile(monkeypatch) -> None:
    monkeypatch.setattr("gateway.fair_queue.MOST_REST", 3600.0)
    cores = FairQueue(CORE_BOUNDS)
    kinds = [FairThreads(name, rests=1.0) for name in ("ranking", "embedding")]
    for threads in kinds:
        threads.share_cores(cores)
    try:
        await kinds[0].run("honest", pow, 2, 5)
        await kinds[0].run("hostile", count_process_time, 3600.0)
        waiting = asyncio.create_task(kinds[1].run("hostile", pow, 2, 6))
        assert await asyncio.wait_for(kinds[1].run("honest", pow, 2, 7), 60) == 128
        assert not waiting.done()
        cores._end_use("hostile")
        assert await asyncio.wait_for(waiting, 60) == 64
    finally:
        for threads in kinds:
            threads.close()


async def test_a_workspace_that_is_alone_never_rests(monkeypatch) -> None:
    rests: list[float] = []
    threads = FairThreads("test", rests=2.0)
    release = threads.queue.release

    def note(name: str, rest: float) -> None:
        rests.append(rest)
        release(name)

    monkeypatch.setattr(threads.queue, "release", note)
    for _ in range(4):  # the last one may not have been noted yet
        await asyncio.wait_for(threads.run("busy", count_process_time, 1000.0), 60)
    threads.close()
    assert rests[:3] == [0.0, 0.0, 0.0]


class LargeResult:
    """Something that takes a moment, and can be looked for after nobody holds it."""

    def __init__(self) -> None:
        time.sleep(0.02)


async def test_a_result_is_gone_as_soon_as_nobody_holds_it() -> None:
    threads = FairThreads("test")
    gc.disable()
    try:
        result = await threads.run("a", LargeResult)
        gone = weakref.ref(result)
        del result
        await asyncio.sleep(0.05)  # the thread lets go of its work
        assert gone() is None
    finally:
        gc.enable()
        threads.close()
