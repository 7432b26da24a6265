"""The control plane: what a policy change costs, and what a request pays to find its policies."""

import subprocess
from collections.abc import Iterator, Sequence

from scripts.benchmark.processes import build_command
from scripts.benchmark.report import align_columns
from scripts.benchmark.semantic_figures import Figure, parse_figures

SECONDS = 300


def measure_parts(quick: bool, scale: float | None) -> Iterator[tuple[str, list[Figure]]]:
    """The figures of each part; in a process of its own, so that nothing else lies in its memory."""
    share = scale or 1.0
    commands = {
        "snapshot": build_command("control_snapshot", round(1000 * share), 5 if quick else 20),
        "scopes": build_command("control_scopes", round(10_000 * share), 3 if quick else 7),
    }
    for name, command in commands.items():
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr.strip()[-500:]}")
        yield name, parse_figures(done.stdout)


def render_text(figures: Sequence[Figure]) -> str:
    heads = ["the control plane", "measured", "beside", "ratio", "target", ""]
    return "\n".join(align_columns([heads, *(figure.render_row() for figure in figures)]))
