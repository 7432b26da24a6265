"""Semantic search: how fast it embeds and finds, and what it costs others meanwhile."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from scripts.benchmark.processes import build_command
from scripts.benchmark.report import align_columns
from scripts.benchmark.semantic_figures import Figure, parse_figures

SECONDS = 170  # that one part may take
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    rounds: int
    passages: tuple[int, ...]
    seconds: float  # of each kind of load
    resources: int = 10_000  # of a gateway that restarts


FULL = Size(60, (1_000, 10_000, 100_000), 6)
QUICK = Size(20, (1_000, 10_000), 3)


def choose_size(quick: bool, scale: float | None) -> Size:
    """How much to measure; a small `scale` is for tests only."""
    size, share = QUICK if quick else FULL, scale or 1.0
    passages = [count for count in size.passages if count <= size.passages[-1] * share]
    kept = tuple(passages or size.passages[:1])
    return Size(max(3, round(size.rounds * share)), kept, size.seconds * share, round(size.resources * share))


def list_parts(size: Size) -> dict[str, list[str]]:
    """The command of each part; each is a process of its own, so that none pays for another's memory."""
    return {
        "embedding": build_command("semantic_embed", size.rounds),
        "stages": build_command("semantic_stages", size.rounds),
        "finding": build_command("semantic_select", size.rounds, *size.passages),
        "restart": build_command("semantic_restart", size.resources),
        "lag": build_command("semantic_lag", size.seconds),
        "burst": build_command("semantic_burst", size.seconds),
    }


def measure_parts(size: Size, only: str = "") -> Iterator[tuple[str, list[Figure]]]:
    """The figures of each part whose name holds `only`; raises RuntimeError when one of them fails."""
    for name, command in list_parts(size).items():
        if only in name:
            # Standard output has the figures only; the rest is shown when a part fails.
            environ = {**os.environ, **ONE_THREAD}
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environ, check=False)
            if done.returncode:
                raise RuntimeError(f"{name}: {done.stderr.strip()[-500:]}")
            yield name, parse_figures(done.stdout)


def render_text(figures: Sequence[Figure]) -> str:
    heads = ["semantic search, one thread", "measured", "beside", "ratio", "target", ""]
    return "\n".join([*align_columns([heads, *(figure.render_row() for figure in figures)]), *list_notes()])


def list_notes() -> Iterator[str]:
    """What could not be measured here."""
    if find_spec("faiss") is None:
        yield "faiss is not installed: pip install faiss-cpu adds the lines that compare with it."
