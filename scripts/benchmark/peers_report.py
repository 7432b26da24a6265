"""The tables of `scripts/bench --peers`, and the part of docs/BENCHMARK.md that they replace."""

import os
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from scripts.benchmark.cells import CONCURRENT, HUGE, LARGE, SMALL, STREAM, Cell, Shape
from scripts.benchmark.features import FEATURES, OURS, name_line
from scripts.benchmark.measure import CellSamples
from scripts.benchmark.peers import NGINX_128K
from scripts.benchmark.report import Verdict, align_columns
from scripts.benchmark.subjects import GatewayStart

BEGIN, END = "<!-- written by scripts/bench --peers: begin -->", "<!-- end -->"
TOOLS = "gateway, tools registered"
UNWATCHED = "gateway, no log and receipts"  # as others are measured: they record nothing
RELAYS = ("nginx", NGINX_128K, "bare")
COLUMNS = (*RELAYS, "tensorzero", "floor", UNWATCHED, OURS, TOOLS, "before", "portkey", "litellm")
# The most that ours may cost in nginxes, and the least that others must cost in ours, at c=32.
NGINX_LIMITS: Mapping[Shape, float] = {SMALL: 8, LARGE: 8, STREAM: 2, HUGE: 1.8}
FILE_LIMITS: Mapping[Shape, float] = {HUGE: NGINX_LIMITS[HUGE]}
TOOLS_LIMITS: Mapping[Shape, float] = {STREAM: 2.5}
TENSORZERO_TIMES: Mapping[Shape, float] = {SMALL: 1.3, LARGE: 2.2, STREAM: 2.2, HUGE: 2.2}
LITELLM_TIMES: Mapping[Shape, float] = {SMALL: 60, LARGE: 80, STREAM: 80, HUGE: 80}


@dataclass(frozen=True, slots=True)
class PeersRun:
    """Everything that one run came to."""

    table: Sequence[CellSamples]
    features: Sequence[CellSamples]
    starts: Sequence[GatewayStart]
    passes: int
    load: float  # the machine's load average before the run
    versions: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)  # peers that could not be measured at all, and why

    @property
    def base(self) -> str:
        """What the others are compared with."""
        return "nginx" if any("nginx" in measured.samples for measured in self.table) else "bare"


def render_run(run: PeersRun) -> str:
    """The whole part, in Markdown."""
    parts = [render_heading(run), "\n".join(render_costs(run)), "\n".join(render_latencies(run))]
    parts += ["\n".join(table) for table in (render_goals(run), render_features(run.features)) if len(table) > 2]
    return "\n\n".join([*parts, *list_absences(run)])


def render_heading(run: PeersRun) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    return (
        f"{when}; {describe_machine()}; {run.passes} interleaved passes; load average before the run {run.load:.1f}.\n"
        f"Versions: {versions or 'no other gateway'}."
    )


def describe_machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    cores = f"{os.cpu_count()} cores ({models[0] if models else platform.machine()})"
    return f"{cores}, {system}, Python {platform.python_version()}"


def list_columns(table: Sequence[CellSamples]) -> list[str]:
    seen = {name for measured in table for name in (*measured.samples, *measured.failures)}
    return [name for name in COLUMNS if name in seen]


def render_costs(run: PeersRun) -> list[str]:
    """CPU µs, and in brackets how many times the base."""
    columns = list_columns(run.table)
    heads = [f"CPU µs per request (× {run.base})", "c", *columns]
    rows = []
    for measured in run.table:
        cells = [render_cost(measured, name, run.base) for name in columns]
        rows.append([measured.cell.shape.name, str(measured.cell.concurrency), *cells])
    return align_columns([heads, *rows])


def render_cost(measured: CellSamples, name: str, base: str) -> str:
    if name not in measured.samples:
        return "failed" if name in measured.failures else "–"
    figure = f"{measured.median(name):,.0f}"
    if base not in measured.samples:
        return figure
    ratio = statistics.median(measured.ratios(name, base))
    return f"{figure} ({ratio:.1f})" if ratio < 100 else f"{figure} ({ratio:.0f})"


def render_latencies(run: PeersRun) -> list[str]:
    columns = list_columns(run.table)
    heads = ["p50 / p99 of an answer, ms", "c", *columns]
    rows = [
        [
            measured.cell.shape.name,
            str(measured.cell.concurrency),
            *(render_latency(measured, name) for name in columns),
        ]
        for measured in run.table
    ]
    return align_columns([heads, *rows])


def render_latency(measured: CellSamples, name: str) -> str:
    if name not in measured.milliseconds:
        return "failed" if name in measured.failures else "–"
    return f"{measured.latency(name, 50):.1f} / {measured.latency(name, 99):.1f}"


def render_goals(run: PeersRun) -> list[str]:
    heads = ["c=32", "median", "min–max", "target", ""]
    return align_columns([heads, *(render_verdict(one, ratios) for one, ratios in list_goals(run.table))])


def list_goals(table: Sequence[CellSamples]) -> Iterator[tuple[Verdict, list[float]]]:
    """Each ratio that has a target, with the figures of its passes; ours with and without what it records."""
    wanted = (
        *((ours, "nginx", "≤", NGINX_LIMITS) for ours in (UNWATCHED, OURS)),
        *((ours, NGINX_128K, "≤", FILE_LIMITS) for ours in (UNWATCHED, OURS)),
        (TOOLS, "nginx", "≤", TOOLS_LIMITS),
        *(("tensorzero", ours, "≥", TENSORZERO_TIMES) for ours in (UNWATCHED, OURS)),
        *(("litellm", ours, "≥", LITELLM_TIMES) for ours in (UNWATCHED, OURS)),
    )
    for one, other, sign, targets in wanted:
        for measured in table:
            target = targets.get(measured.cell.shape)
            known = one in measured.samples and other in measured.samples
            if known and target is not None and measured.cell.concurrency == CONCURRENT:
                yield judge(f"{one} / {other}: {measured.cell.shape.name}", measured.ratios(one, other), sign, target)


def render_features(table: Sequence[CellSamples]) -> list[str]:
    """Its passes are short and many: half of them lie in the range that is shown."""
    passes = max((len(samples) for measured in table for samples in measured.samples.values()), default=0)
    heads = [f"what a feature adds, {passes} passes", "median", "middle half", "target", ""]
    rows = []
    for verdict, ratios in list_features(table):
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        rows.append([verdict.name, f"{verdict.figure:.2f}", f"{low:.2f}–{high:.2f}", verdict.goal, verdict.word])
    return align_columns([heads, *rows])


def list_features(table: Sequence[CellSamples]) -> Iterator[tuple[Verdict, list[float]]]:
    for feature in FEATURES:
        for measured in table:
            if feature.subject in measured.samples and feature.base in measured.samples:
                ratios = measured.ratios(feature.subject, feature.base)
                yield judge(name_line(feature, measured.cell), ratios, "≤", feature.limit)


def describe_cell(cell: Cell) -> str:
    return f"{cell.shape.name}, c={cell.concurrency}"


def judge(name: str, ratios: list[float], sign: str, target: float) -> tuple[Verdict, list[float]]:
    return Verdict(name, statistics.median(ratios), sign, target), ratios


def render_verdict(verdict: Verdict, ratios: Sequence[float]) -> list[str]:
    spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
    return [verdict.name, f"{verdict.figure:.2f}", spread, verdict.goal, verdict.word]


def list_absences(run: PeersRun) -> Iterator[str]:
    """What is not in the tables, and why; each failure once."""
    for name, why in run.missing.items():
        yield f"{name} could not be measured: {why}."
    reasons: dict[str, list[str]] = {}
    for measured in (*run.table, *run.features):
        for name, why in measured.failures.items():
            reasons.setdefault(f"{name} failed: {why.rstrip('.')}", []).append(describe_cell(measured.cell))
    for said, cells in reasons.items():
        yield f"{said} ({'; '.join(cells)})."


def replace_part(document: str, part: str) -> str:
    """A document with the part between the marks replaced; raises ValueError if they are not there."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the document has no marks for this part")
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"
