"""`scripts/disconnects`: clients leave at every phase of a request; the exit code says whether all was well."""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gateway.domain.receipt import STARTED, Receipt
from gateway.edge.connection import BoundedProtocol
from scripts.disconnect_check.case import Case, Phase
from scripts.disconnect_check.clients import run_cases
from scripts.disconnect_check.report import Verdict, report_phase
from scripts.disconnect_check.stage import Stage, Usage, open_stage

COUNT, QUICK_COUNT = 2000, 120
WARM_UP = 70  # disconnects at most, before anything is counted: pools, caches and threads get what they keep
PATIENCE_SECONDS = 10.0  # in which everything has to be over


def make_cases(count: int, first: int, chance: random.Random) -> list[Case]:
    """So many cases in all, every phase as often as any other."""
    phases = [list(Phase)[number % len(Phase)] for number in range(count)]
    chance.shuffle(phases)
    return [
        Case(first + number, phase, phase is Phase.STREAM or chance.random() < 0.5, chance.random() < 0.5)
        for number, phase in enumerate(phases)
    ]


async def settle(stage: Stage, before: Usage | None, patience: float) -> list[Receipt]:
    """Wait until nothing is under way any more, for a while; the receipts that there are then."""
    recorder = stage.gateway.pipeline.receipts
    assert recorder is not None
    receipts: list[Receipt] = []
    for _ in range(int(patience / 0.1)):
        await asyncio.sleep(0.1)
        usage = stage.measure()
        is_quiet = before is None or (len(usage.tasks), usage.descriptors) <= (len(before.tasks), before.descriptors)
        if stage.gateway.metrics.in_flight or recorder.waiting or not is_quiet:
            continue
        receipts = await stage.list_receipts()
        if not any(one.status == STARTED for one in receipts):
            break
    return receipts or await stage.list_receipts()


async def run(count: int, seed: int, patience: float) -> Verdict:
    chance = random.Random(seed)
    warm_up = make_cases(min(WARM_UP, count), 0, chance)
    cases = make_cases(count, len(warm_up), chance)
    known = {case.number: case for case in (*warm_up, *cases)}
    with tempfile.TemporaryDirectory(prefix="disconnects-") as directory:
        async with open_stage(Path(directory), known) as stage:
            await run_cases(warm_up, stage.port, patience)
            early = {one.id for one in await settle(stage, None, patience)}
            before = stage.measure()
            await run_cases(cases, stage.port, patience)
            receipts = [one for one in await settle(stage, before, patience) if one.id not in early]
            return judge(cases, receipts, stage, before)


def judge(cases: Sequence[Case], receipts: Sequence[Receipt], stage: Stage, before: Usage) -> Verdict:
    sessions = {case.name: case.phase for case in cases if case.phase is not Phase.BODY}
    by_phase: dict[Phase, list[Receipt]] = {phase: [] for phase in Phase}
    strays = 0
    for one in receipts:
        phase = Phase.BODY if one.session is None else sessions.get(one.session)
        if phase is None:
            strays += 1
        else:
            by_phase[phase].append(one)
    reports = [report_phase(one, [case for case in cases if case.phase is one], by_phase[one]) for one in Phase]
    recorder = stage.gateway.pipeline.receipts
    assert recorder is not None
    return Verdict(reports, before, stage.measure(), stage.gateway.metrics.in_flight, recorder.lost, strays)


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/disconnects", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help=f"how many clients leave ({COUNT})")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_COUNT}")
    parser.add_argument("--seed", type=int, default=7, help="of the order of the phases (7)")
    patience = f"seconds in which everything has to be over ({PATIENCE_SECONDS:g})"
    parser.add_argument("--patience", type=float, default=PATIENCE_SECONDS, help=patience)
    parser.add_argument(
        "--ignore-leaving", action="store_true", help="a mutant that must fail: nobody notices that a client has left"
    )
    return parser.parse_args(words)


def main() -> int:
    given = parse_arguments()
    if given.ignore_leaving:
        BoundedProtocol._leave = lambda self: None  # type: ignore[method-assign]
    verdict = asyncio.run(run(QUICK_COUNT if given.quick else given.count, given.seed, given.patience))
    print(verdict.to_text())
    return 1 if verdict.list_faults() else 0


if __name__ == "__main__":
    sys.exit(main())
