"""From samples to verdicts, a table for people and a document for programs."""

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scripts.benchmark.cells import BEFORE_LIMIT, RESIDENT_MB, START_SECONDS
from scripts.benchmark.measure import CellSamples
from scripts.benchmark.subjects import BEFORE, GatewayStart


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure against its target."""

    name: str
    figure: float
    sign: str  # ≤ or ≥
    target: float

    @property
    def passed(self) -> bool:
        return self.figure <= self.target if self.sign == "≤" else self.figure >= self.target

    @property
    def goal(self) -> str:
        return f"{self.sign} {self.target:g}"

    @property
    def word(self) -> str:
        return "pass" if self.passed else "FAIL"


def compute_ratio(measured: CellSamples) -> Verdict:
    """The gateway in floors: the median of the ratios within each pass."""
    cell = measured.cell
    figure = statistics.median(measured.ratios("gateway", "floor"))
    return Verdict(f"{cell.name}, c={cell.concurrency}", figure, "≤", cell.kind.limit)


def compare_before(measured: CellSamples) -> Verdict | None:
    """The gateway in gateways of another checkout, where one was measured."""
    if BEFORE not in measured.samples:
        return None
    name = f"gateway / before: {measured.cell.name}, c={measured.cell.concurrency}"
    return Verdict(name, statistics.median(measured.ratios("gateway", BEFORE)), "≤", BEFORE_LIMIT)


def judge_starts(starts: Sequence[GatewayStart]) -> list[Verdict]:
    return [
        Verdict("start until /livez answers, s", statistics.median(s.seconds for s in starts), "≤", START_SECONDS),
        Verdict(
            "memory after the first request, MB", statistics.median(s.resident_mb for s in starts), "≤", RESIDENT_MB
        ),
    ]


def compute_verdicts(table: Sequence[CellSamples], starts: Sequence[GatewayStart]) -> list[Verdict]:
    comparisons = [compare_before(measured) for measured in table]
    others = [verdict for verdict in comparisons if verdict is not None]
    return [*map(compute_ratio, table), *others, *judge_starts(starts)]


def render_text(table: Sequence[CellSamples], starts: Sequence[GatewayStart]) -> str:
    """Tables in Markdown, readable as they stand."""
    others = sorted({name for measured in table for name in measured.samples} - {"floor", "gateway"})
    heads = ["CPU µs per request", "c", *others, "floor", "gateway", "ratio", "min–max", "target", ""]
    rows = [render_row(measured, others) for measured in table]
    more = [[v.name, f"{v.figure:.2f}", v.goal, v.word] for v in compute_verdicts(table, starts)[len(table) :]]
    return "\n".join([*align_columns([heads, *rows]), "", *align_columns([["", "measured", "target", ""], *more])])


def render_row(measured: CellSamples, others: Sequence[str]) -> list[str]:
    verdict = compute_ratio(measured)
    ratios = measured.ratios("gateway", "floor")
    figures = [
        f"{measured.median(name):.0f}" if name in measured.samples else "" for name in (*others, "floor", "gateway")
    ]
    spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
    cell = measured.cell
    return [cell.name, str(cell.concurrency), *figures, f"{verdict.figure:.2f}", spread, verdict.goal, verdict.word]


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) + " |" for row in rows]
    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]) + "|"
    return [lines[0], rule, *lines[1:]]


def build_document(table: Sequence[CellSamples], starts: Sequence[GatewayStart]) -> dict[str, Any]:
    """Everything that was measured, sample by sample."""
    return {
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "cells": [
            {
                "name": m.cell.name,
                "concurrency": m.cell.concurrency,
                "cpu_us": m.samples,
                "median_ratio": compute_ratio(m).figure,
            }
            for m in table
        ],
        "starts": [asdict(start) for start in starts],
        "verdicts": [{**asdict(v), "passed": v.passed} for v in compute_verdicts(table, starts)],
    }
