"""The control: what a run's load costs the honest tenant although the gateway has no part in it.

All processes share the cores of one machine, the load generators too. So after each attack, as much CPU time is burnt
by processes that have nothing to do with the gateway, at the same priorities.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmark.processes import read_line, run_process

TICKS = os.sysconf("SC_CLK_TCK")
LOW = 19  # niceness of the hostile tenant's own process, and of the sandboxes that it keeps busy
MOST = 0.98  # of a core, for one process that burns it


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds at a moment."""

    at: float
    served: float  # by the gateway and the upstream
    lowered: float  # by the gateway's children, which have a low priority, and the hostile tenant or its control
    others: float = 0.0  # by whatever has nothing to do with the run, on this machine or on its host

    @classmethod
    def read(cls, serving: Sequence[int], beside: Sequence[int] = ()) -> "CpuTimes":
        own, children = zip(*map(_read_times, serving), strict=True)
        served, lowered = sum(own), sum(children) + sum(_read_times(pid)[0] for pid in beside)
        return cls(time.monotonic(), served, lowered, _read_busy_time() - served - lowered - time.process_time())

    def compute_rates(self, until: "CpuTimes") -> "CpuRates":
        seconds = until.at - self.at
        return CpuRates(
            (until.served - self.served) / seconds,
            (until.lowered - self.lowered) / seconds,
            max(0.0, until.others - self.others) / seconds,
        )


@dataclass(frozen=True, slots=True)
class CpuRates:
    """Cores that were busy."""

    served: float
    lowered: float
    others: float = 0.0

    def subtract(self, other: "CpuRates") -> "CpuRates":
        return CpuRates(max(0.0, self.served - other.served), max(0.0, self.lowered - other.lowered))


@asynccontextmanager
async def burn(rates: CpuRates) -> AsyncGenerator[list[int]]:
    """The same CPU time, burnt by these processes."""
    pids: list[int] = []
    with ExitStack() as burning:
        for cores, niceness in ((rates.served, 0), (rates.lowered, LOW)):
            for share in _split(cores):
                command = [sys.executable, "-m", "scripts.chaos_run.burner", f"{share:.3f}", str(niceness)]
                burner = burning.enter_context(run_process(command))
                await asyncio.to_thread(read_line, burner)
                pids.append(burner.pid)
        yield pids


def _split(cores: float) -> list[float]:
    count = max(1, min(os.cpu_count() or 1, round(cores + 0.5)))
    return [min(MOST, cores / count)] * count if cores > 0.01 else []


def _read_busy_time() -> float:
    """CPU seconds of all cores, with what the host has taken away."""
    user, nice, system, _, _, *others = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + sum(others)) / TICKS


def _read_times(pid: int) -> tuple[float, float]:
    """CPU seconds of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    own, children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return own / TICKS, children / TICKS
