"""The control plane: what a policy change costs, and what a request pays to find its policies."""

import subprocess
from collections.abc import Iterator, Sequence

from scripts.benchmark.processes import build_command
from scripts.benchmark.report import align_columns
from scripts.benchmark.semantic_figures import Figure, parse_figures

SECONDS = 300


def measure_parts(quick: bool, scale: float | None) -> Iterator[tuple[str, list[Figure]]]:
    """The figures; in a process of their own, so that nothing else lies in its memory."""
    contexts = round(1000 * (scale or 1.0))
    command = build_command("control_snapshot", contexts, 5 if quick else 20)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"snapshot: {done.stderr.strip()[-500:]}")
    yield "snapshot", parse_figures(done.stdout)


def render_text(figures: Sequence[Figure]) -> str:
    heads = ["the control plane", "measured", "beside", "ratio", "target", ""]
    return "\n".join(align_columns([heads, *(figure.render_row() for figure in figures)]))
