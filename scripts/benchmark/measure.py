"""Interleaved passes: every cell on every subject, again and again, so that a noisy machine is noisy for all."""

import json
import statistics
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from scripts.benchmark.cells import Cell
from scripts.benchmark.processes import build_command, read_line, run_process
from scripts.benchmark.subjects import Subject

MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """How much is measured."""

    cells: tuple[Cell, ...]
    passes: int
    scale: float  # share of the usual number of requests


@dataclass(frozen=True, slots=True)
class CellSamples:
    """CPU µs per request of one cell: one figure per pass and subject."""

    cell: Cell
    samples: dict[str, list[float]] = field(default_factory=dict)

    def median(self, subject: str) -> float:
        return statistics.median(self.samples[subject])

    def ratios(self, subject: str, base: str) -> list[float]:
        """How many times `base` a subject costs, pass by pass: only figures of one pass are compared."""
        return [one / other for one, other in zip(self.samples[subject], self.samples[base], strict=True)]


class LoadGenerator:
    """The load generator's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def measure_cpu(self, subject: Subject, cell: Cell, requests: int) -> float:
        """CPU seconds that a subject needs for so many requests; raises RuntimeError if one of them fails."""
        order = {
            "port": subject.port,
            "pids": subject.pids,
            "request": subject.request(cell.kind, cell.shape.body()).decode(),
            "streams": cell.shape.streams,
            "concurrency": cell.concurrency,
            "requests": requests,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(read_line(self._process))
        if "error" in result:
            raise RuntimeError(f"{subject.name}, {cell.name}, c={cell.concurrency}: {result['error']}")
        return float(result["cpu"])


@contextmanager
def run_load_generator() -> Generator[LoadGenerator]:
    with run_process(build_command("load")) as process:
        yield LoadGenerator(process)


def measure(
    generator: LoadGenerator, subjects: Sequence[Subject], plan: MeasurementPlan
) -> Generator[str, None, list[CellSamples]]:
    """Yields a line of progress per pass, returns the samples of each cell."""
    table = [CellSamples(cell) for cell in plan.cells]
    for measured in table:
        for subject in select_able(subjects, measured.cell):
            generator.measure_cpu(subject, measured.cell, measured.cell.concurrency)
    for number in range(plan.passes):
        yield f"pass {number + 1} of {plan.passes}"
        for measured in table:
            among = select_able(subjects, measured.cell)
            first = number % len(among)
            run_once(generator, measured, [*among[first:], *among[:first]], plan.scale)
    return table


def select_able(subjects: Sequence[Subject], cell: Cell) -> list[Subject]:
    return [subject for subject in subjects if subject.serves(cell)]


def run_once(generator: LoadGenerator, measured: CellSamples, subjects: list[Subject], scale: float) -> None:
    """One pass of one cell in short runs, forth and back: whatever slows the machine meanwhile slows all alike."""
    cell, requests = measured.cell, measured.cell.requests(scale)
    rounds = choose_rounds(cell, requests)
    spent: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for number in range(rounds):
        among = [subject for subject in subjects if number == 0 or subject.slowness == 1]
        for subject in (*among, *reversed(among)):
            count = max(cell.concurrency, requests // subject.slowness // (2 * rounds))
            spent[subject.name].append(generator.measure_cpu(subject, cell, count) / count)
    for name, costs in spent.items():
        measured.samples.setdefault(name, []).append(statistics.mean(costs) * 1e6)


def choose_rounds(cell: Cell, requests: int) -> int:
    """As many as leave each client several requests per run."""
    return max(1, min(MOST_ROUNDS, requests // (8 * cell.concurrency)))
