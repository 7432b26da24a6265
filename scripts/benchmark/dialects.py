"""`scripts/bench --dialects`: the same requests in every dialect, through one gateway in one interleaved run.

A stream of responses has other bytes in more events than one of chat. What that costs whoever passes it on is told by
a bare relay that reads none of it, in the same run.
"""

import statistics
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.benchmark import subjects
from scripts.benchmark.cells import DIALECT_CELLS, DIALECT_LIMIT, Kind
from scripts.benchmark.dialect_payloads import PATHS, UNSTORED
from scripts.benchmark.measure import CellSamples, MeasurementPlan, measure, run_load_generator
from scripts.benchmark.report import align_columns
from scripts.benchmark.semantic_figures import Figure
from scripts.benchmark.subjects import BEFORE, RequestRoute, Subject

CHAT = "chat"
OTHERS = ("responses", UNSTORED, "messages")
BARE = "bare relay"
BARE_OTHERS = (UNSTORED, "messages")  # it stores nothing


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


def speak(server: Subject, dialect: str) -> Subject:
    """The same server, asked in another dialect."""
    path = PATHS[dialect.partition(",")[0]]
    model = "messages-{}" if dialect == "messages" else "{}"
    doors = {
        kind: replace(door, path=door.path.replace(PATHS[CHAT], path), model=model, dialect=dialect)
        for kind, door in server.doors.items()
    }
    return replace(server, name=dialect if server.name == CHAT else f"{server.name}: {dialect}", doors=doors)


@contextmanager
def run_bare_relay(upstream_port: int) -> Generator[list[Subject]]:
    """The control: it passes on what it gets in any dialect, unread."""
    with subjects.run_bare(upstream_port) as bare:
        relay = replace(bare, name=BARE, doors={Kind.RELAY: RequestRoute(f"/relay/v1{PATHS[CHAT]}")})
        yield [relay, *(speak(relay, dialect) for dialect in BARE_OTHERS)]


def run(plan: MeasurementPlan, before: Path | None = None) -> Generator[str, None, list[CellSamples]]:
    """Yields progress, returns the samples; the gateway of another checkout is asked the same in the same passes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, ExitStack() as stack:
        upstream = stack.enter_context(subjects.run_upstream())
        settings = build_settings(upstream)
        gateway = stack.enter_context(subjects.run_gateway(upstream, Path(temporary), name=CHAT, settings=settings))
        gateways = [gateway]
        if before is not None:
            directory = Path(temporary) / BEFORE
            old = subjects.run_gateway(upstream, directory, name=BEFORE, checkout=before.resolve(), settings=settings)
            gateways.append(stack.enter_context(old))
        spoken = [one for server in gateways for one in (server, *(speak(server, dialect) for dialect in OTHERS))]
        for subject in spoken:
            for kind in subject.doors:
                subjects.probe(subject, kind)
        spoken += stack.enter_context(run_bare_relay(upstream))
        return (yield from measure(stack.enter_context(run_load_generator()), spoken, plan))


def build_plan(only: str, passes: int, scale: float, clients: int) -> MeasurementPlan:
    cells = (replace(cell, concurrency=clients) for cell in DIALECT_CELLS if only in cell.name)
    return MeasurementPlan(tuple(cells), passes, scale)


def list_changes(table: Sequence[CellSamples]) -> list[Figure]:
    """Each dialect beside itself in the gateway of the other checkout."""
    figures = []
    for measured in table:
        for dialect in (CHAT, *OTHERS):
            name = BEFORE if dialect == CHAT else f"{BEFORE}: {dialect}"
            old, ratio = measured.median(name), statistics.median(measured.ratios(dialect, name))
            figures.append(Figure(f"{dialect}: {measured.cell.name}", old * ratio, "µs", old, BEFORE))
    return figures


def list_figures(table: Sequence[CellSamples]) -> list[Figure]:
    """Each dialect beside chat: the median of the ratios within each pass."""
    figures = []
    for measured in table:
        chat = measured.median(CHAT)
        for dialect in OTHERS:
            ratio = statistics.median(measured.ratios(dialect, CHAT))
            name = f"{dialect}: {measured.cell.name}"
            figures.append(Figure(name, chat * ratio, "µs", chat, CHAT, DIALECT_LIMIT))
        if measured.cell.kind is Kind.RELAY:
            figures += list_control(measured)
    return figures


def list_control(measured: CellSamples) -> list[Figure]:
    """What the same bytes cost a bare relay, beside those of chat; there is no target for that."""
    chat = measured.median(BARE)
    names = [f"{BARE}: {dialect}" for dialect in BARE_OTHERS]
    ratios = [statistics.median(measured.ratios(name, BARE)) for name in names]
    return [
        Figure(f"{name}: {measured.cell.name}", chat * ratio, "µs", chat, CHAT)
        for name, ratio in zip(names, ratios, strict=True)
    ]


def render_text(figures: Sequence[Figure]) -> str:
    heads = ["CPU per request", "measured", "beside", "ratio", "target", ""]
    return "\n".join(align_columns([heads, *(figure.render_row() for figure in figures)]))
