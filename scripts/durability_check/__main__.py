"""`scripts/durability`: kills a writer again and again; the exit code says whether anything was lost."""

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.durability_check.inspection import Inspection
from scripts.durability_check.rounds import run_round

ROUNDS, QUICK_ROUNDS = 200, 8
CHECK_EVERY = 10  # rounds; it reads the whole file, which grows


def main(arguments: Sequence[str] | None = None) -> int:
    given = build_parser().parse_args(arguments)
    rounds = QUICK_ROUNDS if given.quick else given.rounds
    chance, found, commits = random.Random(given.seed), Inspection(), 0
    with tempfile.TemporaryDirectory(prefix="durability-") as folder:
        file = Path(folder) / "gateway.db"
        for number in range(rounds):
            before = dict(found.reached or {})
            acknowledged = run_round(file, number, chance, given.acknowledge_early)
            commits += sum(last - before.get(writer, 0) for writer, last in acknowledged.items())
            found.compare(file, acknowledged)
            if number % CHECK_EVERY == 0 or number == rounds - 1:
                found.check_integrity(file)
            if not found.passed:
                print(f"Round {number + 1} of seed {given.seed} is the first with a fault.")
                break
        size = file.stat().st_size
    print(
        f"{number + 1} kills during {commits:,} acknowledged commits ({size / 1e6:,.0f} MB): {found.lost} lost, "
        f"{found.wrong} wrong, integrity {found.integrity}"
    )
    return 0 if found.passed else 1


def build_parser() -> argparse.ArgumentParser:
    described = argparse.ArgumentParser(prog="scripts/durability", description=__doc__)
    described.add_argument("--rounds", type=int, default=ROUNDS, help=f"how many kills ({ROUNDS})")
    described.add_argument("--quick", action="store_true", help=f"only {QUICK_ROUNDS} kills")
    described.add_argument("--seed", type=int, default=7, help="of the moments of the kills (7)")
    described.add_argument(
        "--acknowledge-early",
        action="store_true",
        help="a mutant that must fail: the writer acknowledges before it commits",
    )
    return described


if __name__ == "__main__":
    sys.exit(main())
