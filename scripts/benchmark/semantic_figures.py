"""One line of the table of the search by meaning, and how processes of their own tell it."""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, what of the same run it stands beside, and what it should be."""

    name: str
    ours: float
    unit: str
    beside: float | None = None
    beside_is: str = ""
    target: float | None = None  # of the ratio, or of the figure itself where nothing stands beside it
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

    def row(self) -> list[str]:
        beside = f"{shown(self.beside)} ({self.beside_is})" if self.beside is not None else ""
        ratio = f"{self.ratio:.2f}" if self.ratio is not None else ""
        goal = f"{self.sign} {self.target:g}" if self.target is not None else ""
        word = ("pass" if self.passed else "FAIL") if goal else ""
        return [self.name, f"{shown(self.ours)} {self.unit}", beside, ratio, goal, word]


def shown(figure: float) -> str:
    return f"{figure:.3f}" if figure < 1 else f"{figure:.1f}" if figure < 100 else f"{figure:.0f}"


def tell(figures: Iterable[Figure]) -> None:
    print(json.dumps([asdict(figure) for figure in figures]), flush=True)


def told(line: str) -> list[Figure]:
    return [Figure(**fields) for fields in json.loads(line)]


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def side_by_side(works: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Median milliseconds of each; they take turns, so that a noisy machine is noisy for all."""
    for work in works:
        work()
    samples: list[list[float]] = [[] for _ in works]
    for number in range(rounds):
        turn = number % len(works)
        for place in (*range(turn, len(works)), *range(turn)):
            samples[place].append(milliseconds(works[place]))
    return [statistics.median(one) for one in samples]
