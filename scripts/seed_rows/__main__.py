"""Start a gateway and an endpoint, run the checks and print a line for each row.

Run: .venv/bin/python -m scripts.seed_rows [ROW …] — a row such as 001.2.4, or the beginning of several such as 001.2.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.seed_rows import (
    agents,
    budget,
    collecting,
    knowledge,
    management,
    ranking,
    recipes,
    sections,
    semantic,
    sessions,
    tools,
)
from scripts.seed_rows.bench import Bench, open_bench
from scripts.seed_rows.checks import RowCheck, list_checks
from scripts.seed_rows.world import POLICIES

GROUPS = (collecting, ranking, sections, budget, knowledge, recipes, agents, management, semantic, sessions, tools)
CHECKS: tuple[RowCheck, ...] = tuple(list_checks(GROUPS))
WIDTH = 160  # characters of what was seen


@dataclass(frozen=True)
class RowResult:
    """What one check saw."""

    check: RowCheck
    failed: bool
    seen: str
    seconds: float


def choose_checks(wanted: Sequence[str]) -> list[RowCheck]:
    """The checks of rows that begin like one of `wanted`; all of them if nothing is wanted."""

    def is_wanted(row: str) -> bool:
        return any(row == one or row.startswith(f"{one.rstrip('.')}.") for one in wanted)

    return [one for one in CHECKS if not wanted or any(map(is_wanted, one.rows))]


def run_checks(bench: Bench, checks: Sequence[RowCheck]) -> Iterator[RowResult]:
    for check in checks:
        begun = time.monotonic()
        try:
            failed, seen = False, check(bench)
        except Exception as error:  # a check that breaks has failed, and the others go on
            failed, seen = True, f"{type(error).__name__}: {error}"
        yield RowResult(check, failed, seen, time.monotonic() - begun)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--blind", action="store_true", help="ask for no context at all: checks should notice")
    parser.add_argument("--times", action="store_true", help="show how long each check takes")
    said = parser.parse_args(arguments)
    checks = choose_checks(said.rows)
    if not checks:
        parser.error(f"no check is about {', '.join(said.rows)}")
    failures = 0
    with tempfile.TemporaryDirectory() as folder, open_bench(Path(folder), POLICIES, said.blind) as bench:
        for done in run_checks(bench, checks):
            failures += done.failed
            seen = " ".join(done.seen.split())
            took = f" | {done.seconds:.1f} s" if said.times else ""
            for row in done.check.rows:
                print(
                    f"{row} | {'FAIL' if done.failed else 'ok'} | {seen if done.failed else seen[:WIDTH]}{took}",
                    flush=True,
                )
    print(f"{len(checks)} checks of {sum(len(one.rows) for one in checks)} rows, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
