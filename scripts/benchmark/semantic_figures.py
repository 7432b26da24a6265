"""One line of a table of figures, and how a separate process hands it over."""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, what it is compared with in the same run, and its target."""

    name: str
    ours: float
    unit: str
    beside: float | None = None
    beside_is: str = ""
    target: float | None = None  # of the ratio, or of the figure itself where it is compared with nothing
    sign: str = "≤"

    @property
    def ratio(self) -> float | None:
        return self.ours / self.beside if self.beside else None

    @property
    def passed(self) -> bool:
        if self.target is None:
            return True
        figure = self.ours if self.ratio is None else self.ratio
        return figure <= self.target if self.sign == "≤" else figure >= self.target

    def render_row(self) -> list[str]:
        beside = f"{format_figure(self.beside)} ({self.beside_is})" if self.beside is not None else ""
        ratio = f"{self.ratio:.2f}" if self.ratio is not None else ""
        goal = f"{self.sign} {self.target:g}" if self.target is not None else ""
        word = ("pass" if self.passed else "FAIL") if goal else ""
        return [self.name, f"{format_figure(self.ours)} {self.unit}", beside, ratio, goal, word]


def format_figure(figure: float) -> str:
    return f"{figure:.3f}" if figure < 1 else f"{figure:.1f}" if figure < 100 else f"{figure:.0f}"


def print_figures(figures: Iterable[Figure]) -> None:
    print(json.dumps([asdict(figure) for figure in figures]), flush=True)


def parse_figures(line: str) -> list[Figure]:
    return [Figure(**fields) for fields in json.loads(line)]


def time_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def time_side_by_side(works: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Median milliseconds of each; they alternate, so that a noisy machine is noisy for all."""
    for work in works:
        work()
    samples: list[list[float]] = [[] for _ in works]
    for number in range(rounds):
        first = number % len(works)
        for place in (*range(first, len(works)), *range(first)):
            samples[place].append(time_ms(works[place]))
    return [statistics.median(one) for one in samples]


def get_percentile(ascending: Sequence[float], percent: float) -> float:
    return ascending[min(len(ascending) - 1, int(len(ascending) * percent / 100))]
