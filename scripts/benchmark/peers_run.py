"""`scripts/bench --peers`: this gateway beside others in one interleaved run."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scripts.benchmark import subjects
from scripts.benchmark.cells import FEATURE_CELLS, PEER_CELLS, Cell, Kind
from scripts.benchmark.features import OURS, PASSES, QUICK_PASSES, SCALE, FeaturePlan, measure_features, plan_features
from scripts.benchmark.measure import CellSamples, MeasurementPlan, measure, run_load_generator
from scripts.benchmark.peers import PEERS, Surroundings, run_peers
from scripts.benchmark.peers_report import (
    TOOLS,
    UNWATCHED,
    PeersRun,
    list_features,
    list_goals,
    render_features,
    render_run,
    replace_part,
)
from scripts.benchmark.report import Verdict
from scripts.benchmark.subjects import Subject

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "BENCHMARK.md"
CACHE = ROOT / "build" / "peers"  # ignored by git, like everything that can be made again

Progress = Callable[[Generator[str, None, list[CellSamples]]], list[CellSamples]]


@dataclass(frozen=True, slots=True)
class Selection:
    """What of everything is measured."""

    cells: tuple[Cell, ...]
    feature_cells: tuple[Cell, ...]
    names: frozenset[str]  # of servers; empty: all

    def has(self, name: str) -> bool:
        return not self.names or name in self.names


def select(given: argparse.Namespace) -> Selection:
    """Raises ValueError for names that nobody has."""
    names = frozenset(filter(None, given.subjects.split(",")))
    known = {"bare", "floor", "features", OURS, *(peer.name for peer in PEERS)}
    if wrong := names - known:
        raise ValueError(f"There is no {', '.join(sorted(wrong))}; there are {', '.join(sorted(known))}.")
    cells = tuple(cell for cell in PEER_CELLS if given.only in cell.shape.name)
    if not cells:
        raise ValueError(f"No line has {given.only!r} in its name.")
    features = tuple(cell for cell in FEATURE_CELLS if given.only in cell.shape.name)
    return Selection(cells, features if not names or "features" in names else (), names)


def run(given: argparse.Namespace, show_progress: Progress) -> int:
    """Measure, print, and write the document if the run was a whole one; returns an exit code."""
    try:
        selection = select(given)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    done = measure_all(given, selection, show_progress)
    text = render_run(done)
    print(text)
    if given.json:
        given.json.write_text(json.dumps(build_document(done), indent=2, ensure_ascii=False) + "\n")
    if not (given.only or given.subjects or given.quick or given.scale):
        DOCUMENT.write_text(replace_part(DOCUMENT.read_text(), text))
        print(f"Written to {DOCUMENT.relative_to(ROOT)}.", file=sys.stderr)
    failed = any(OURS in measured.failures for measured in (*done.table, *done.features))
    missed = [one for one, _ in (*list_goals(done.table), *list_features(done.features)) if not one.passed]
    return 1 if failed or (given.check and missed) else 0


def measure_all(given: argparse.Namespace, selection: Selection, show_progress: Progress) -> PeersRun:
    passes, scale = given.passes or (2 if given.quick else 5), given.scale or (0.3 if given.quick else 1.0)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, ExitStack() as stack:
        around = Surroundings(stack.enter_context(subjects.run_upstream()), Path(temporary))
        starts = [subjects.measure_start(around.upstream, around.directory / OURS) for _ in range(given.starts)]
        generator = stack.enter_context(run_load_generator())
        ours = stack.enter_context(subjects.run_gateway(around.upstream, around.directory / OURS))
        with run_floors(around, selection, given.before) as floors, run_peers(around, CACHE, selection.has) as peers:
            unwatched = stack.enter_context(run_unwatched(around))
            servers = [*floors, unwatched, ours, register_tools(ours), *peers.subjects]
            table = show_progress(measure(generator, servers, MeasurementPlan(selection.cells, passes, scale)))
        features: list[CellSamples] = []
        if selection.feature_cells:
            plan = replace(build_feature_plan(given), cells=selection.feature_cells)
            features = show_progress(measure_features(generator, around.upstream, around.directory, plan))
    return PeersRun(table, features, starts, passes, load, peers.versions, peers.missing)


def build_feature_plan(given: argparse.Namespace, only: str = "") -> FeaturePlan:
    """Short passes, more of them than for servers."""
    passes, scale = QUICK_PASSES if given.quick else PASSES, given.scale or 1.0
    return plan_features(only, given.passes or passes, SCALE * scale)


def run_features(given: argparse.Namespace, show_progress: Progress) -> int:
    """The table of features by itself; returns an exit code."""
    plan = build_feature_plan(given, given.only)
    if not plan.cells:
        print(f"No line has {given.only!r} in its name.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, ExitStack() as stack:
        upstream, generator = stack.enter_context(subjects.run_upstream()), stack.enter_context(run_load_generator())
        table = show_progress(measure_features(generator, upstream, Path(temporary), plan))
    print("\n".join(render_features(table)))
    verdicts = [one for one, _ in list_features(table)]
    if given.json:
        document = {"features": list(map(build_cell, table)), "verdicts": list(map(build_verdict, verdicts))}
        given.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    failed = any(measured.failures for measured in table)
    return 1 if failed or (given.check and not all(one.passed for one in verdicts)) else 0


@contextmanager
def run_floors(around: Surroundings, selection: Selection, before: Path | None) -> Generator[list[Subject]]:
    """What we compare ourselves with and need not install."""
    with ExitStack() as stack:
        running = []
        if selection.has("bare"):
            running.append(stack.enter_context(subjects.run_bare(around.upstream)))
        if selection.has("floor"):
            running.append(stack.enter_context(subjects.run_floor(around.upstream)))
        if before is not None:
            place, name = around.directory / "before", subjects.BEFORE
            gateway = subjects.run_gateway(around.upstream, place, name=name, checkout=before.resolve())
            running.append(stack.enter_context(gateway))
        for one in running:
            subjects.probe(one, Kind.INJECTED)
        yield running


@contextmanager
def run_unwatched(around: Surroundings) -> Generator[Subject]:
    """This gateway without its log and its receipts, for a comparison with what keeps neither."""
    settings = {"log": {"exchanges": False}, "receipts": {"enabled": False}}
    place = around.directory / "unwatched"
    with subjects.run_gateway(around.upstream, place, name=UNWATCHED, settings=settings) as gateway:
        subjects.probe(gateway, Kind.INJECTED)
        yield gateway


def register_tools(ours: Subject) -> Subject:
    """The same gateway, asked by an agent with tools."""
    tools = replace(ours, name=TOOLS, doors={Kind.INJECTED: ours.doors[Kind.TOOLS]})
    for one in (ours, tools):
        subjects.probe(one, Kind.INJECTED)
    return tools


def build_document(done: PeersRun) -> dict[str, Any]:
    """Everything that was measured, pass by pass."""
    return {
        "passes": done.passes,
        "load": done.load,
        "versions": dict(done.versions),
        "missing": dict(done.missing),
        "cells": list(map(build_cell, done.table)),
        "features": list(map(build_cell, done.features)),
        "starts": [asdict(start) for start in done.starts],
        "verdicts": [build_verdict(one) for one, _ in (*list_goals(done.table), *list_features(done.features))],
    }


def build_verdict(verdict: Verdict) -> dict[str, Any]:
    return {**asdict(verdict), "passed": verdict.passed}


def build_cell(measured: CellSamples) -> dict[str, Any]:
    return {
        "name": measured.cell.shape.name,
        "concurrency": measured.cell.concurrency,
        "cpu_us": measured.samples,
        "p50_ms": {name: measured.latency(name, 50) for name in measured.milliseconds},
        "p99_ms": {name: measured.latency(name, 99) for name in measured.milliseconds},
        "failures": measured.failures,
    }
