"""A gateway that counts its steps, asked for exactly so many requests; see step_counter.py for what counts."""

import asyncio
import json
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from scripts.benchmark import subjects
from scripts.benchmark.cells import Cell
from scripts.benchmark.dialect_payloads import ENDS
from scripts.benchmark.load import LoadClient, LoadRun
from scripts.benchmark.processes import read_line
from scripts.benchmark.subjects import Subject

PROGRAM = Path(__file__).with_name("step_counter.py")
WARM_UP = 4  # requests per client: everything that is cached is known then
SETTLE_SECONDS = 1.5  # what is gathered for 50 ms is gathered for 500 here, and written then
IDLE_SECONDS = 2.0
MOST_IDLE_STEPS = 40_000  # per second: usually it is 15,000, but far more while it still loads what it needs later
REST_ATTEMPTS = 10

Totals = Mapping[str, tuple[int, int]]  # calls and steps by function, since the process began


@dataclass(frozen=True, slots=True)
class FunctionSteps:
    """What one function does for a request."""

    calls: float = 0.0  # a generator or coroutine that goes on is a call, too
    steps: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestSteps:
    """What a request makes a gateway do, by function."""

    functions: Mapping[str, FunctionSteps]

    @property
    def steps(self) -> float:
        return sum(one.steps for one in self.functions.values())


class CountingGateway:
    """A gateway whose steps are counted; what it does while it is idle is not part of any request."""

    def __init__(self, process: subprocess.Popen[str], subject: Subject) -> None:
        self._process, self.subject = process, subject
        self._idle: Mapping[str, FunctionSteps] = {}  # per second

    def measure_idle(self) -> None:
        """Learn what it does without any request, as soon as it rests from its start."""
        for _ in range(REST_ATTEMPTS):
            time.sleep(SETTLE_SECONDS)
            before, began = self._read_totals(), time.perf_counter()
            time.sleep(IDLE_SECONDS)
            seconds = time.perf_counter() - began
            self._idle = subtract(self._read_totals(), before, {}, 0, seconds)
            if sum(one.steps for one in self._idle.values()) <= MOST_IDLE_STEPS:
                return
        raise RuntimeError("the gateway did not come to rest")

    def count(self, asked: Subject, cell: Cell, requests: int) -> RequestSteps:
        """What one of so many requests takes, with everything that is written behind them."""
        return uvloop.run(self._count(asked, cell, requests))

    async def _count(self, asked: Subject, cell: Cell, requests: int) -> RequestSteps:
        run, loop = LoadRun(), asyncio.get_running_loop()
        request = asked.request(cell.kind, cell.shape)
        end = ENDS[asked.doors[cell.kind].dialect].encode() if cell.shape.streams else b""
        clients = []
        for _ in range(cell.concurrency):
            _, client = await loop.create_connection(lambda: LoadClient(run, request, end), "127.0.0.1", asked.port)
            clients.append(client)
        await run.send(clients, WARM_UP * len(clients))
        await asyncio.sleep(SETTLE_SECONDS)
        before, began = self._read_totals(), loop.time()
        await run.send(clients, requests)
        await asyncio.sleep(SETTLE_SECONDS)
        seconds = loop.time() - began
        done = subtract(self._read_totals(), before, self._idle, seconds, requests)
        for client in clients:
            client.close()
        return RequestSteps(done)

    def _read_totals(self) -> Totals:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        while not (line := read_line(self._process)).startswith("{"):
            pass  # the rest of what a gateway says when it starts
        return {name: (calls, steps) for name, (calls, steps) in json.loads(line).items()}


def subtract(
    after: Totals, before: Totals, idle: Mapping[str, FunctionSteps], seconds: float, parts: float
) -> dict[str, FunctionSteps]:
    """What came in between, less what an idle gateway does in that time, in each of so many equal parts."""
    functions = {}
    for name, (calls, steps) in after.items():
        known, unasked = before.get(name, (0, 0)), idle.get(name, FunctionSteps())
        more = FunctionSteps(
            (calls - known[0] - unasked.calls * seconds) / parts, (steps - known[1] - unasked.steps * seconds) / parts
        )
        if more.calls or more.steps:
            functions[name] = more
    return functions


@contextmanager
def run_counting_gateway(
    config: Path, checkout: Path | None = None, headers: tuple[tuple[str, str], ...] = ()
) -> Generator[CountingGateway]:
    """The gateway of this or another checkout."""
    with subjects.run_gateway_process(config, checkout, (str(PROGRAM),)) as process:
        gateway = CountingGateway(process, subjects.find_gateway(process, headers=headers))
        gateway.measure_idle()
        yield gateway
