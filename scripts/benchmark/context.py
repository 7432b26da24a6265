"""The context builder: what a request about content costs, and how that grows with the content."""

import subprocess
from collections.abc import Iterator, Sequence

from scripts.benchmark.processes import build_command
from scripts.benchmark.report import align_columns
from scripts.benchmark.semantic_figures import Figure, parse_figures

SECONDS = 900
SIZES = (1_000, 10_000, 100_000)  # nodes


def measure_parts(quick: bool, scale: float | None) -> Iterator[tuple[str, list[Figure]]]:
    """The figures of each size; in a process of its own, so that nothing else lies in its memory."""
    rounds = 60 if quick else 300
    for size in SIZES[:2] if quick and scale is None else SIZES:
        nodes = max(50, round(size * (scale or 1.0)))
        command = build_command("context_build", nodes, rounds)
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise RuntimeError(f"{nodes} nodes: {done.stderr.strip()[-500:]}")
        yield f"{nodes:,} nodes", parse_figures(done.stdout)


def render_text(figures: Sequence[Figure]) -> str:
    heads = ["the context builder", "measured", "beside", "ratio", "target", ""]
    return "\n".join(align_columns([heads, *(figure.render_row() for figure in figures)]))
