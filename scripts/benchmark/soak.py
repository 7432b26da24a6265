"""`scripts/bench --soak`: whether memory grows with the requests, how late the event loop is, how slow answers are."""

import itertools
import json
import statistics
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmark import subjects
from scripts.benchmark.cells import CONCURRENT, SMALL, STREAM, Cell, Kind
from scripts.benchmark.measure import LoadGenerator, run_load_generator
from scripts.benchmark.processes import build_command, read_line, read_resident_bytes, run_process
from scripts.benchmark.report import align_columns
from scripts.benchmark.semantic_figures import Figure, get_percentile
from scripts.benchmark.subjects import RequestRoute, Subject, name_agent

REQUESTS = 300_000
BLOCKS = 100
SHORT = 0.1  # a run of so small a scale only shows that it measures: it has fewer blocks
# Share of the blocks whose memory does not count: the bounded caches and pools of SQLite and the allocator fill until
# some 160,000 requests have passed. What grows with requests goes on growing in the 100,000 that count.
WARM_UP = 0.66
LEAK_BYTES = 1.0  # per request
LEAK_OBJECTS = 0.01

INJECTED = Cell(Kind.INJECTED, SMALL, CONCURRENT)
TOOLS = Cell(Kind.TOOLS, SMALL, CONCURRENT)
STREAMED = Cell(Kind.INJECTED, STREAM, CONCURRENT)
MIXTURE = (INJECTED, INJECTED, TOOLS, INJECTED, INJECTED, INJECTED, INJECTED, TOOLS, INJECTED, STREAMED)


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """What a gateway held after so many requests."""

    requests: int
    resident: int  # bytes, as the kernel counts them: in pages, with what the allocator keeps
    blocks: int  # of Python's allocator: objects that are alive, in effect


@dataclass(frozen=True, slots=True)
class GatewayState:
    """What the process says of itself since it was asked last."""

    lags: dict[str, float]  # milliseconds by which the loop was late, by percentile
    blocks: int


class SoakedGateway:
    """A gateway whose event loop is watched."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        routes = {
            Kind.INJECTED: RequestRoute(headers=(name_agent("editor"),), context=True),
            Kind.TOOLS: RequestRoute(headers=(name_agent("librarian"),), context=True, tools=True),
        }
        self.subject = Subject("gateway", int(read_line(process)), (process.pid,), routes)

    def take_state(self) -> GatewayState:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return GatewayState(**json.loads(read_line(self._process)))

    def read_resident(self) -> int:
        return read_resident_bytes(self._process.pid)


@contextmanager
def run_soaked(upstream: int, directory: Path) -> Generator[SoakedGateway]:
    config = subjects.write_config(upstream, directory)
    with run_process(build_command("soak_gateway", config)) as process:
        gateway = SoakedGateway(process)
        for kind in gateway.subject.doors:
            subjects.probe(gateway.subject, kind)
        yield gateway


def measure(scale: float) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as temporary,
        subjects.run_upstream() as upstream,
        run_load_generator() as generator,
        run_soaked(upstream, Path(temporary)) as gateway,
    ):
        blocks = BLOCKS if scale > SHORT else 2 * len(MIXTURE)
        return soak(gateway, generator, blocks, max(CONCURRENT, round(REQUESTS * scale / BLOCKS)))


def soak(gateway: SoakedGateway, generator: LoadGenerator, blocks: int, block: int) -> list[Figure]:
    """Blocks of requests, one after the other; memory is read between them, the loop's lag within them."""
    points: list[MemoryPoint] = []
    lags: list[dict[str, float]] = []
    answers: dict[str, list[float]] = {}
    for number, cell in zip(range(blocks), itertools.cycle(MIXTURE), strict=False):
        gateway.take_state()
        sample = generator.run(gateway.subject, cell, block)
        state = gateway.take_state()
        lags.append(state.lags)
        answers.setdefault(cell.name, []).extend(sample.milliseconds)
        requests = (number + 1) * (block + CONCURRENT)
        points.append(MemoryPoint(requests, gateway.read_resident(), state.blocks))
    return [*describe_memory(points), *describe_lags(lags), *describe_answers(answers)]


def describe_memory(points: Sequence[MemoryPoint]) -> list[Figure]:
    counted = points[round(len(points) * WARM_UP) :]
    numbers = [point.requests for point in counted]
    total = f"of the last {numbers[-1] - numbers[0]:,} of {numbers[-1]:,} requests"
    blocks, resident = ([getattr(point, kind) for point in counted] for kind in ("blocks", "resident"))
    return [
        Figure(f"objects that stay per request, {total}", compute_growth(numbers, blocks), "", target=LEAK_OBJECTS),
        Figure(
            f"memory that stays per request, {total}", compute_growth(numbers, resident), "bytes", target=LEAK_BYTES
        ),
        Figure("memory after the first block", points[0].resident / 2**20, "MB"),
        Figure("memory after the last block", points[-1].resident / 2**20, "MB"),
    ]


def compute_growth(requests: Sequence[int], held: Sequence[int]) -> float:
    """What stays per request: the median slope between all pairs (Theil–Sen), unmoved by a jump near an end."""
    points = itertools.combinations(zip(requests, held, strict=True), 2)
    return statistics.median((later - former) / (b - a) for (a, former), (b, later) in points)


def describe_lags(lags: Sequence[dict[str, float]]) -> list[Figure]:
    """Each block has its percentiles; the median block is stated, and the worst tick of all."""
    kept = [f"{percent:g}" for percent in (50, 99, 99.9)]
    medians = [
        Figure(f"event loop's lag at c=32, p{one}", statistics.median(lag[one] for lag in lags), "ms") for one in kept
    ]
    return [*medians, Figure("event loop's lag at c=32, worst", max(lag["100"] for lag in lags), "ms")]


def describe_answers(answers: dict[str, list[float]]) -> list[Figure]:
    return [
        Figure(f"{name}, c=32, p{percent:g}", get_percentile(sorted(found), percent), "ms")
        for name, found in answers.items()
        for percent in (50, 99)
    ]


def render_text(figures: Sequence[Figure]) -> str:
    heads = ["soak", "measured", "beside", "ratio", "target", ""]
    return "\n".join(align_columns([heads, *(figure.render_row() for figure in figures)]))
