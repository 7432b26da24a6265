import asyncio
import gc
import threading
from dataclasses import replace

import pytest

from gateway.domain.snapshot import EMPTY, Snapshot
from gateway.errors import Fault, Faults
from gateway.stores.snapshot import SnapshotHolder


@pytest.fixture(autouse=True)
def thawed():
    yield
    gc.unfreeze()


class Loader:
    """Loads a fresh snapshot, or fails while `broken`."""

    def __init__(self) -> None:
        self.broken = False
        self.threads: list[threading.Thread] = []
        self.running = self.most = 0

    def __call__(self, generation: int) -> Snapshot:
        self.threads.append(threading.current_thread())
        self.running += 1
        self.most = max(self.most, self.running)
        threading.Event().wait(0.01)
        self.running -= 1
        if self.broken:
            raise Faults([Fault("a.yaml", 3, "agents.x", "is wrong")])
        return replace(EMPTY, generation=generation, hash=f"{generation:064}")


def test_the_first_load_counts_as_generation_one() -> None:
    holder = SnapshotHolder(Loader())
    assert holder.generation == 0
    holder.start()
    assert (holder.generation, holder.error) == (1, None)


def test_faulty_policies_at_start_are_not_swallowed() -> None:
    load = Loader()
    load.broken = True
    with pytest.raises(Faults):
        SnapshotHolder(load).start()


async def test_a_reload_swaps_the_snapshot_off_the_loop() -> None:
    load = Loader()
    holder = SnapshotHolder(load)
    holder.start()
    taken = holder.current
    assert await holder.reload()
    assert (taken.generation, holder.generation) == (1, 2)
    assert load.threads[1] is not threading.main_thread()


async def test_a_faulty_reload_keeps_the_old_snapshot_and_says_why_until_it_is_mended() -> None:
    load = Loader()
    holder = SnapshotHolder(load)
    holder.start()
    before = holder.current
    load.broken = True
    assert not await holder.reload()
    assert holder.current is before
    assert holder.error == "a.yaml:3: agents.x: is wrong"
    load.broken = False
    assert await holder.reload()
    assert (holder.generation, holder.error) == (2, None)


async def test_reloads_run_one_after_another_and_each_counts() -> None:
    load = Loader()
    holder = SnapshotHolder(load)
    holder.start()
    await asyncio.gather(*(holder.reload() for _ in range(4)))
    assert (holder.generation, load.most) == (5, 1)


async def test_a_swap_takes_the_snapshot_out_of_the_garbage_collectors_way() -> None:
    holder = SnapshotHolder(Loader())
    holder.start()
    frozen = gc.get_freeze_count()
    assert frozen > 0
    await holder.reload()
    assert not any(one is holder.current for one in gc.get_objects())
