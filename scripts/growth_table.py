"""`python -m scripts.growth_table [SURFACE …]`: how the time of every surface grows with what it is fed.

For each surface the worst exponent of all families of text and which family it was (1 is linear, 2 quadratic; 0: too
quick to tell), and the milliseconds that the longest input of that family took. Ends with 1 if one grows too fast.
"""

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.growth import LIMIT, Growth
from tests.test_growth import FAMILIES, measure_surface, surfaces


@dataclass(frozen=True, slots=True)
class TableRow:
    """What one surface made of every family."""

    surface: str
    growths: dict[str, Growth]

    @property
    def worst(self) -> str:
        return max(self.growths, key=lambda family: self.growths[family].exponent)

    @property
    def is_steep(self) -> bool:
        return self.growths[self.worst].is_steep

    def to_text(self) -> str:
        growth = self.growths[self.worst]
        return (
            f"{self.surface:<26}{len(self.growths):>9}{growth.exponent:>10.2f}  {self.worst:<18}"
            f"{1000 * growth.seconds[-1]:>9.1f}  {'STEEP' if self.is_steep else 'ok'}"
        )


HEAD = f"{'surface':<26}{'families':>9}{'exponent':>10}  {'worst family':<18}{'last ms':>9}"


def measure_rows(names: Iterable[str]) -> Iterator[TableRow]:
    with tempfile.TemporaryDirectory() as directory:
        known = surfaces(Path(directory))
        for name in names or known:
            yield TableRow(name, dict(measure_surface(known[name])))


def main(names: Sequence[str]) -> int:
    print(HEAD)
    rows = []
    for row in measure_rows(names):
        rows.append(row)
        print(row.to_text(), flush=True)
    steep = [row.surface for row in rows if row.is_steep]
    worst = max(rows, key=lambda row: row.growths[row.worst].exponent)
    print(
        f"{len(rows)} surfaces, {len(FAMILIES)} families; worst exponent {worst.growths[worst.worst].exponent:.2f} "
        f"({worst.surface}, {worst.worst}), limit {LIMIT:g}: {'MISSED' if steep else 'ok'}"
    )
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
