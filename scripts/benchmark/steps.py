"""`scripts/bench --steps`: how many opcodes a request takes in each dialect, and with and without a feature.

CPU time on a busy machine differs by a tenth from run to run; what the interpreter executes does not. It is the same
load as for --dialects and the features of --peers, but a stream comes in a fixed number of pieces.
"""

import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.benchmark import subjects
from scripts.benchmark.cells import DIALECT_LIMIT, FEATURE_STEP_CELLS, STEP_CELLS, Cell
from scripts.benchmark.dialects import CHAT, OTHERS, build_settings, speak
from scripts.benchmark.features import FEATURES, SETTINGS, Feature, list_headers
from scripts.benchmark.report import align_columns
from scripts.benchmark.semantic_figures import Figure
from scripts.benchmark.steps_gateway import CountingGateway, FunctionSteps, RequestSteps, run_counting_gateway
from scripts.benchmark.subjects import BEFORE, Subject

REQUESTS = 1600  # half as many streams, which take long
DIFFERENCES = 30  # functions that are listed for each line


@dataclass(frozen=True, slots=True)
class StepComparison:
    """One line of the table: two kinds of requests, or two gateways."""

    name: str
    ours: RequestSteps
    beside: RequestSteps
    beside_is: str
    target: float | None = None

    def to_figure(self) -> Figure:
        return Figure(self.name, self.ours.steps, "steps", self.beside.steps, self.beside_is, self.target)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What is counted: the lines whose names contain a text."""

    only: str
    requests: int
    before: Path | None = None

    def list_dialects(self, cell: Cell) -> list[str]:
        """Chat and what is compared with it; nothing if that is not wanted."""
        others = [dialect for dialect in OTHERS if self.only in f"{dialect}: {cell.name}"]
        return [CHAT, *others] if others or (self.before and self.only in f"{CHAT}: {cell.name}") else []

    def list_features(self, cell: Cell) -> list[Feature]:
        return [feature for feature in FEATURES if self.only in f"{feature.name}: {cell.name}"]

    @property
    def is_empty(self) -> bool:
        return not any(map(self.list_dialects, STEP_CELLS)) and not any(map(self.list_features, FEATURE_STEP_CELLS))


def run(plan: StepPlan) -> Generator[str, None, list[StepComparison]]:
    """Yields progress, returns the lines; raises RuntimeError or TimeoutError if a request fails."""
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, subjects.run_upstream() as upstream:
        directory = Path(temporary)
        compared = yield from compare_dialects(plan, upstream, directory)
        return compared + (yield from compare_features(plan, upstream, directory))


def compare_dialects(plan: StepPlan, upstream: int, directory: Path) -> Generator[str, None, list[StepComparison]]:
    """Each dialect beside chat, and beside itself in the gateway of another checkout."""
    compared: list[StepComparison] = []
    changes: list[StepComparison] = []
    for cell in STEP_CELLS:
        spoken = plan.list_dialects(cell)
        if not spoken:
            continue
        yield cell.name
        names = {dialect: f"{dialect}: {cell.name}" for dialect in spoken}
        config = subjects.write_config(upstream, Path(tempfile.mkdtemp(dir=directory)), build_settings(upstream))
        counted = count_dialects(config, None, cell, spoken, plan.requests)
        compared += (
            StepComparison(names[dialect], counted[dialect], counted[CHAT], CHAT, DIALECT_LIMIT)
            for dialect in spoken
            if dialect != CHAT
        )
        if plan.before is not None:
            config = subjects.write_config(upstream, Path(tempfile.mkdtemp(dir=directory)), build_settings(upstream))
            old = count_dialects(config, plan.before.resolve(), cell, spoken, plan.requests)
            changes += (StepComparison(names[dialect], counted[dialect], old[dialect], BEFORE) for dialect in spoken)
    return compared + changes


def count_dialects(
    config: Path, checkout: Path | None, cell: Cell, dialects: Sequence[str], requests: int
) -> dict[str, RequestSteps]:
    """One line in each dialect, in a process of its own: what was asked for other lines does not matter."""
    with run_counting_gateway(config, checkout) as gateway:
        chat = replace(gateway.subject, name=CHAT)
        spoken = {dialect: chat if dialect == CHAT else speak(chat, dialect) for dialect in dialects}
        return {dialect: count_cell(gateway, asked, cell, requests) for dialect, asked in spoken.items()}


def count_cell(gateway: CountingGateway, asked: Subject, cell: Cell, requests: int) -> RequestSteps:
    subjects.probe(asked, cell.kind)
    return gateway.count(asked, cell, max(1, requests // 2 if cell.shape.streams else requests))


def compare_features(plan: StepPlan, upstream: int, directory: Path) -> Generator[str, None, list[StepComparison]]:
    """A gateway with each feature beside one without it; each is asked once for all features that it takes part in."""
    wanted = [
        (feature, cell) for feature in FEATURES for cell in FEATURE_STEP_CELLS if feature in plan.list_features(cell)
    ]
    counted: dict[tuple[str, str], RequestSteps] = {}
    for name in SETTINGS:
        cells = {cell.name: cell for feature, cell in wanted if name in (feature.subject, feature.base)}
        if not cells:
            continue
        yield name
        config = subjects.write_config(upstream, directory / name.replace(" ", "-"), SETTINGS[name])
        with run_counting_gateway(config, headers=list_headers(name)) as gateway:
            for cell in cells.values():
                counted[name, cell.name] = count_cell(gateway, gateway.subject, cell, plan.requests)
    return [
        StepComparison(
            f"{feature.name}: {cell.name}",
            counted[feature.subject, cell.name],
            counted[feature.base, cell.name],
            "without",
            feature.limit,
        )
        for feature, cell in wanted
    ]


def render_text(compared: Sequence[StepComparison]) -> str:
    heads = ["steps per request", "measured", "beside", "ratio", "target", ""]
    return "\n".join(align_columns([heads, *(one.to_figure().render_row() for one in compared)]))


def render_functions(one: StepComparison) -> str:
    """The functions in which the two differ most, the largest difference first."""
    ours, beside, nothing = one.ours.functions, one.beside.functions, FunctionSteps()
    pairs = {name: (ours.get(name, nothing), beside.get(name, nothing)) for name in ours.keys() | beside.keys()}
    differences = {name: mine.steps - other.steps for name, (mine, other) in pairs.items()}
    rows = [["function", "calls", one.beside_is, "steps", one.beside_is, "difference"]]
    for name in sorted(differences, key=lambda name: -abs(differences[name]))[:DIFFERENCES]:
        mine, other = pairs[name]
        counts = (mine.calls, other.calls, mine.steps, other.steps)
        rows.append([name, *(f"{count:.1f}" for count in counts), f"{differences[name]:+.1f}"])
    return "\n".join([f"{one.name}, beside {one.beside_is}", "", *align_columns(rows)])
