"""The search by meaning: how fast it embeds and finds, and what it costs others meanwhile."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from benchmark.processes import module
from benchmark.report import aligned
from benchmark.semantic_figures import Figure, told

SECONDS = 170  # that one part may take
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    rounds: int
    passages: tuple[int, ...]
    seconds: float  # of each kind of load
    resources: int = 10_000  # of a gateway that comes up again


FULL = Size(60, (1_000, 10_000, 100_000), 6)
QUICK = Size(20, (1_000, 10_000), 3)


def sized(quick: bool, scale: float | None) -> Size:
    """How much to measure; a small `scale` is for tests, not for trust."""
    size, share = QUICK if quick else FULL, scale or 1.0
    passages = [count for count in size.passages if count <= size.passages[-1] * share]
    kept = tuple(passages or size.passages[:1])
    return Size(max(3, round(size.rounds * share)), kept, size.seconds * share, round(size.resources * share))


def parts(size: Size) -> dict[str, list[str]]:
    """The command of each part; each is a process of its own, so that none pays for another's memory."""
    return {
        "embedding": module("semantic_embed", size.rounds),
        "finding": module("semantic_select", size.rounds, *size.passages),
        "restart": module("semantic_restart", size.resources),
        "lag": module("semantic_lag", size.seconds),
        "burst": module("semantic_burst", size.seconds),
    }


def measured(size: Size, only: str = "") -> Iterator[tuple[str, list[Figure]]]:
    """The figures of each part whose name holds `only`; raises RuntimeError when one of them fails."""
    for name, command in parts(size).items():
        if only in name:
            # Only the figures come on standard output; what a part has to say otherwise is shown when it fails.
            environ = {**os.environ, **ONE_THREAD}
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environ, check=False)
            if done.returncode:
                raise RuntimeError(f"{name}: {done.stderr.strip()[-500:]}")
            yield name, told(done.stdout)


def as_text(figures: Sequence[Figure]) -> str:
    heads = ["the search by meaning, one thread", "measured", "beside", "ratio", "target", ""]
    return "\n".join([*aligned([heads, *(figure.row() for figure in figures)]), *notes()])


def notes() -> Iterator[str]:
    """What could not be measured here."""
    if find_spec("faiss") is None:
        yield "faiss is not installed, so that nothing stands beside it: pip install faiss-cpu adds these lines."
