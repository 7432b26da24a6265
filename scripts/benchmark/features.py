"""This gateway with one feature on: what keys, limits, receipts, the log and the console add to a request.

How the memory of a process happens to lie makes it some percent faster or slower for as long as it lives. So each pass
has processes of its own, and there are many short ones.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from scripts.benchmark.cells import FEATURE_CELLS, Cell, Kind
from scripts.benchmark.measure import CellSamples, LoadGenerator, MeasurementPlan, measure
from scripts.benchmark.subjects import Subject, probe, run_gateway

OURS = "gateway"
QUIET = "gateway without log"
HEADLESS = "gateway without console"
UNRECORDED = "gateway without receipts"
SILENT = "gateway without log and receipts"
KEY = "sk-bench-features"
PASSES, SCALE = 15, 0.3  # short ones
QUICK_PASSES = 4
WARM_UP = 12  # requests per client: what a process has just learned would count in every pass


@dataclass(frozen=True, slots=True)
class Feature:
    """A gateway that has it, one that has it not, and the most that it may cost."""

    name: str
    subject: str
    base: str
    limit: float
    settings: Mapping[str, Any]


def build_key(**limits: int) -> dict[str, Any]:
    """Settings with one key, whose limits are never reached."""
    return {"auth": {"keys": [{"sha256": sha256(KEY.encode()).hexdigest(), "limits": limits}]}}


FEATURES = (
    Feature("exchange log", OURS, QUIET, 1.1, {}),
    Feature("receipts", OURS, UNRECORDED, 1.15, {}),
    Feature("receipts, without the log", QUIET, SILENT, 1.15, {}),
    Feature("console", OURS, HEADLESS, 1.03, {}),
    Feature("keys", "gateway with keys", OURS, 1.03, build_key()),
    Feature("request limit", "gateway with a request limit", OURS, 1.1, build_key(requests=10**9)),
    Feature("token limit", "gateway with a token limit", OURS, 1.1, build_key(tokens=10**12)),
)


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    OURS: {},
    QUIET: {"log": {"exchanges": False}},
    UNRECORDED: {"receipts": {"enabled": False}},
    SILENT: {"log": {"exchanges": False}, "receipts": {"enabled": False}},
    HEADLESS: {"console": False},
    **{one.subject: one.settings for one in FEATURES if one.settings},
}


def list_headers(subject: str) -> tuple[tuple[str, str], ...]:
    """What every request to one of these gateways bears."""
    return (("authorization", f"Bearer {KEY}"),) if "auth" in SETTINGS[subject] else ()


@dataclass(frozen=True, slots=True)
class FeaturePlan:
    """What of the features is measured, and how much."""

    cells: tuple[Cell, ...]
    names: tuple[str, ...]  # of gateways
    passes: int
    scale: float

    @property
    def one_pass(self) -> MeasurementPlan:
        return MeasurementPlan(self.cells, 1, self.scale, WARM_UP, rounds=1)


def plan_features(only: str, passes: int, scale: float) -> FeaturePlan:
    """The lines whose names contain a text."""
    lines = [(feature, cell) for feature in FEATURES for cell in FEATURE_CELLS if only in name_line(feature, cell)]
    cells = tuple(cell for cell in FEATURE_CELLS if any(cell is one for _, one in lines))
    wanted = {name for feature, _ in lines for name in (feature.subject, feature.base)}
    return FeaturePlan(cells, tuple(name for name in SETTINGS if name in wanted), passes, scale)


def name_line(feature: Feature, cell: Cell) -> str:
    return f"{feature.name}: {cell.shape.name}, c={cell.concurrency}"


def measure_features(
    generator: LoadGenerator, upstream_port: int, directory: Path, plan: FeaturePlan
) -> Generator[str, None, list[CellSamples]]:
    """Yields progress, returns the samples; in each pass another gateway is the first."""
    table = [CellSamples(cell) for cell in plan.cells]
    for number in range(plan.passes):
        yield f"features: pass {number + 1} of {plan.passes}"
        first = number % len(plan.names)
        names = (*plan.names[first:], *plan.names[:first])
        with run_features(upstream_port, directory / f"features-{number}", names) as running:
            measuring = measure(generator, running, plan.one_pass)
            for measured, more in zip(table, finish_quietly(measuring), strict=True):
                measured.add(more)
                yield from (f"{name}, {measured.cell.name}: {why}" for name, why in more.failures.items())
    return table


def finish_quietly(measuring: Generator[str, None, list[CellSamples]]) -> list[CellSamples]:
    """What is measured, without its progress."""
    while True:
        try:
            next(measuring)
        except StopIteration as end:
            table: list[CellSamples] = end.value
            return table


@contextmanager
def run_features(upstream_port: int, directory: Path, names: Sequence[str]) -> Generator[list[Subject]]:
    """Each in a process of its own."""
    with ExitStack() as stack:
        running = []
        for name in names:
            place, headers = directory / name.replace(" ", "-"), list_headers(name)
            gateway = run_gateway(upstream_port, place, name=name, settings=SETTINGS[name], headers=headers)
            subject = stack.enter_context(gateway)
            probe(subject, Kind.INJECTED)
            running.append(subject)
        yield running
