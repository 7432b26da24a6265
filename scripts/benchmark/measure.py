"""Interleaved passes: every cell on every subject, again and again, so that a noisy machine is noisy for all."""

import json
import statistics
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from scripts.benchmark.cells import Cell
from scripts.benchmark.dialect_payloads import ENDS
from scripts.benchmark.processes import build_command, read_line, run_process
from scripts.benchmark.semantic_figures import get_percentile
from scripts.benchmark.subjects import Subject

MOST_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """How much is measured."""

    cells: tuple[Cell, ...]
    passes: int
    scale: float  # share of the usual number of requests
    warm_up: int = 1  # requests of each client that are not measured, to each server
    rounds: int = MOST_ROUNDS  # in which the servers alternate within a pass, forth and back


@dataclass(frozen=True, slots=True)
class LoadSample:
    """What one run came to."""

    cpu_seconds: float
    milliseconds: list[float]  # that each answer took


@dataclass(frozen=True, slots=True)
class CellSamples:
    """CPU µs per request of one cell: one figure per pass and subject; a subject that failed once has none."""

    cell: Cell
    samples: dict[str, list[float]] = field(default_factory=dict)
    milliseconds: dict[str, list[float]] = field(default_factory=dict)  # of all answers in all passes
    failures: dict[str, str] = field(default_factory=dict)

    def fail(self, subject: str, why: str) -> None:
        self.failures[subject] = why
        self.samples.pop(subject, None)
        self.milliseconds.pop(subject, None)

    def latency(self, subject: str, percent: float) -> float:
        """Milliseconds within which so many percent of the answers came."""
        return get_percentile(sorted(self.milliseconds[subject]), percent)

    def add(self, other: "CellSamples") -> None:
        """The figures of another run of the same cell; whoever failed in one of them has none."""
        for name, why in other.failures.items():
            self.fail(name, why)
        for name, samples in other.samples.items():
            if name not in self.failures:
                self.samples.setdefault(name, []).extend(samples)
                self.milliseconds.setdefault(name, []).extend(other.milliseconds[name])

    def median(self, subject: str) -> float:
        return statistics.median(self.samples[subject])

    def ratios(self, subject: str, base: str) -> list[float]:
        """How many times `base` a subject costs, pass by pass: only figures of one pass are compared."""
        return [one / other for one, other in zip(self.samples[subject], self.samples[base], strict=True)]


class LoadGenerator:
    """The load generator's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, subject: Subject, cell: Cell, requests: int) -> LoadSample:
        """Send a subject so many requests; raises RuntimeError if one of them fails."""
        order = {
            "port": subject.port,
            "pids": subject.pids,
            "request": subject.request(cell.kind, cell.shape).decode(),
            "end": ENDS[subject.doors[cell.kind].dialect] if cell.shape.streams else "",
            "concurrency": cell.concurrency,
            "requests": requests,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(read_line(self._process))
        if "error" in result:
            raise RuntimeError(result["error"])
        return LoadSample(result["cpu"], result["milliseconds"])


@contextmanager
def run_load_generator() -> Generator[LoadGenerator]:
    with run_process(build_command("load")) as process:
        yield LoadGenerator(process)


def measure(
    generator: LoadGenerator, subjects: Sequence[Subject], plan: MeasurementPlan
) -> Generator[str, None, list[CellSamples]]:
    """Yields a line of progress per pass and per failure, returns the samples of each cell."""
    table = [CellSamples(cell) for cell in plan.cells]
    for measured in table:
        for subject in select_able(subjects, measured):
            try:
                generator.run(subject, measured.cell, plan.warm_up * measured.cell.concurrency)
            except RuntimeError as error:
                measured.fail(subject.name, str(error))
                yield describe_failure(measured, subject.name)
    for number in range(plan.passes):
        yield f"pass {number + 1} of {plan.passes}"
        for measured in table:
            among = select_able(subjects, measured)
            first = number % max(1, len(among))
            run_once(generator, measured, [*among[first:], *among[:first]], plan)
            yield from (describe_failure(measured, one.name) for one in among if one.name in measured.failures)
    return table


def describe_failure(measured: CellSamples, subject: str) -> str:
    cell = measured.cell
    return f"{subject}, {cell.name}, c={cell.concurrency}: {measured.failures[subject]}"


def select_able(subjects: Sequence[Subject], measured: CellSamples) -> list[Subject]:
    return [one for one in subjects if one.serves(measured.cell) and one.name not in measured.failures]


def run_once(generator: LoadGenerator, measured: CellSamples, subjects: list[Subject], plan: MeasurementPlan) -> None:
    """One pass of one cell in short runs, forth and back: whatever slows the machine meanwhile slows all alike."""
    cell, requests = measured.cell, measured.cell.requests(plan.scale)
    rounds = choose_rounds(cell, requests, plan.rounds)
    spent: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for number in range(rounds):
        among = [one for one in subjects if number == 0 or one.slowness == 1]
        for subject in (*among, *reversed(among)):
            if subject.name in measured.failures:
                continue
            count = max(cell.concurrency, requests // subject.slowness // (2 * rounds))
            try:
                sample = generator.run(subject, cell, count)
            except RuntimeError as error:
                measured.fail(subject.name, str(error))
                continue
            spent[subject.name].append(sample.cpu_seconds / count)
            measured.milliseconds.setdefault(subject.name, []).extend(sample.milliseconds)
    for name, costs in spent.items():
        if name not in measured.failures:
            measured.samples.setdefault(name, []).append(statistics.mean(costs) * 1e6)


def choose_rounds(cell: Cell, requests: int, most: int) -> int:
    """As many as leave each client several requests per run."""
    return max(1, min(most, requests // (8 * cell.concurrency)))
