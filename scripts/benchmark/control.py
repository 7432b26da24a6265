"""The control plane: what a change of the policies costs, and what a request pays to find its own."""

import subprocess
from collections.abc import Iterator, Sequence

from benchmark.processes import module
from benchmark.report import aligned
from benchmark.semantic_figures import Figure, told

SECONDS = 300


def measured(quick: bool, scale: float | None) -> Iterator[tuple[str, list[Figure]]]:
    """The figures; in a process of their own, so that nothing else lies in its memory."""
    contexts = round(1000 * (scale or 1.0))
    command = module("control_snapshot", contexts, 5 if quick else 20)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"snapshot: {done.stderr.strip()[-500:]}")
    yield "snapshot", told(done.stdout)


def as_text(figures: Sequence[Figure]) -> str:
    heads = ["the control plane", "measured", "beside", "ratio", "target", ""]
    return "\n".join(aligned([heads, *(figure.row() for figure in figures)]))
