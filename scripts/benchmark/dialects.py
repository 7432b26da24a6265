"""`scripts/bench --dialects`: the same requests in every dialect, through one gateway in one interleaved run."""

import statistics
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.benchmark import subjects
from scripts.benchmark.cells import DIALECT_CELLS, DIALECT_LIMIT
from scripts.benchmark.dialect_payloads import PATHS, UNSTORED
from scripts.benchmark.measure import CellSamples, MeasurementPlan, measure, run_load_generator
from scripts.benchmark.report import align_columns
from scripts.benchmark.semantic_figures import Figure
from scripts.benchmark.subjects import Subject

CHAT = "chat"
OTHERS = ("responses", UNSTORED, "messages")


def build_settings(upstream_port: int) -> dict[str, Any]:
    """An upstream of each kind, both the same server; names of models choose."""
    address = f"http://127.0.0.1:{upstream_port}/v1"
    return {
        "upstreams": {
            "mock": {"kind": "openai", "base_url": address, "responses": True},
            "claude": {"kind": "anthropic", "base_url": address, "api_key": "sk-bench"},
        },
        "routes": [{"model": "messages-*", "upstream": "claude"}, {"model": "*", "upstream": "mock"}],
    }


def speak(gateway: Subject, dialect: str) -> Subject:
    """The same gateway, asked in another dialect."""
    path = "/v1" + PATHS[dialect.partition(",")[0]]
    model = "messages-{}" if dialect == "messages" else "{}"
    doors = {kind: replace(door, path=path, model=model, dialect=dialect) for kind, door in gateway.doors.items()}
    return replace(gateway, name=dialect, doors=doors)


def run(plan: MeasurementPlan) -> Generator[str, None, list[CellSamples]]:
    """Yields progress, returns the samples."""
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, ExitStack() as stack:
        upstream = stack.enter_context(subjects.run_upstream())
        settings = build_settings(upstream)
        gateway = stack.enter_context(subjects.run_gateway(upstream, Path(temporary), name=CHAT, settings=settings))
        spoken = [gateway, *(speak(gateway, dialect) for dialect in OTHERS)]
        for subject in spoken:
            for kind in subject.doors:
                subjects.probe(subject, kind)
        return (yield from measure(stack.enter_context(run_load_generator()), spoken, plan))


def build_plan(only: str, passes: int, scale: float) -> MeasurementPlan:
    return MeasurementPlan(tuple(cell for cell in DIALECT_CELLS if only in cell.name), passes, scale)


def list_figures(table: Sequence[CellSamples]) -> list[Figure]:
    """Each dialect beside chat: the median of the ratios within each pass."""
    figures = []
    for measured in table:
        chat = measured.median(CHAT)
        for dialect in OTHERS:
            ratio = statistics.median(measured.ratios(dialect, CHAT))
            name = f"{dialect}: {measured.cell.name}"
            figures.append(Figure(name, chat * ratio, "µs", chat, CHAT, DIALECT_LIMIT))
    return figures


def render_text(figures: Sequence[Figure]) -> str:
    heads = ["CPU per request", "measured", "beside", "ratio", "target", ""]
    return "\n".join(align_columns([heads, *(figure.render_row() for figure in figures)]))
