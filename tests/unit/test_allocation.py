"""Memory goes back to the system once a flood is over."""

import asyncio
import subprocess
import sys
from itertools import pairwise
from time import monotonic

import pytest

from gateway import allocation
from gateway.allocation import GROWTH_BYTES, FreePages, read_resident_bytes

FLOOD = """
from gateway.allocation import read_resident_bytes, return_free_pages, return_large_blocks
return_large_blocks()
blocks, between = [], []
for _ in range(200):
    blocks.append(bytes([1]) * 600_000)
    between.append(bytes([1]) * 2_000)
del blocks
before = read_resident_bytes()
return_free_pages()
print(before - read_resident_bytes())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries give back what they like")
def test_pages_between_blocks_that_stay_are_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", FLOOD], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) > 80_000_000


def test_what_an_operator_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, option: int, value: int) -> None:
            told.append((option, value))

    monkeypatch.setattr("ctypes.CDLL", lambda _: Library())
    monkeypatch.setattr("sys.platform", "linux")
    allocation.return_large_blocks({"arena_max", "trim_threshold"})
    assert told == [allocation.OPTIONS["mmap_threshold"]]


def test_the_system_tells_what_is_resident() -> None:
    assert sys.platform != "linux" or 10_000_000 < read_resident_bytes() < 20_000_000_000


class Heaps:
    """A process whose memory is what the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, resident: int, kept: int) -> None:
        self.resident, self._kept = resident, kept
        self.times: list[float] = []  # when its free pages were given back
        self._given_back, self._loop = asyncio.Event(), asyncio.get_running_loop()
        monkeypatch.setattr(allocation, "return_free_pages", self._give_back)
        monkeypatch.setattr(allocation, "LOOK_SECONDS", 0.01)
        monkeypatch.setattr(allocation, "LONGEST_PAUSE", 0.05)

    def measure(self) -> int:
        return self.resident

    def _give_back(self) -> None:
        self.resident = min(self.resident, self._kept)
        self.times.append(monotonic())
        self._loop.call_soon_threadsafe(self._given_back.set)

    async def wait(self) -> None:
        await asyncio.wait_for(self._given_back.wait(), 5)
        self._given_back.clear()


async def test_what_each_flood_leaves_is_given_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    heaps = Heaps(monkeypatch, resident=100, kept=200)
    running = asyncio.create_task(FreePages(heaps.measure).run())
    for _ in range(2):
        heaps.resident = 2 * GROWTH_BYTES
        await heaps.wait()
        await asyncio.sleep(0.05)
    running.cancel()
    assert (heaps.resident, len(heaps.times)) == (200, 2)


async def test_memory_that_is_in_use_is_looked_at_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    heaps = Heaps(monkeypatch, resident=100, kept=3 * GROWTH_BYTES)
    running = asyncio.create_task(FreePages(heaps.measure).run())
    heaps.resident = 2 * GROWTH_BYTES
    for _ in range(4):
        await heaps.wait()
    running.cancel()
    pauses = [later - earlier for earlier, later in pairwise(heaps.times)]
    assert min(pauses) > 0.015
