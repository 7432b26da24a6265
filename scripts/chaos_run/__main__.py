"""`scripts/chaos`: phases alone, under attack, and beside a control in turn, so that all see the same machine."""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import orjson

from scripts.benchmark.processes import read_line, run_process
from scripts.chaos_run.control import CpuRates, CpuTimes, burn
from scripts.chaos_run.honest import HonestTenant, Window
from scripts.chaos_run.hostile import ATTACKS
from scripts.chaos_run.report import Round, Verdict
from scripts.chaos_run.stage import Stage, open_stage

SECONDS, QUICK_SECONDS = 600.0, 24.0
PHASE_SECONDS = 10.0  # of one kind: short, so that all kinds see what others do to the machine
WARM_UP_SECONDS = 3.0
KINDS = 3  # of phases: alone, attacked, and beside as much CPU time that others burn
REST_SECONDS = 1.0  # after an attack, until what it left behind is over


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of load, in all phases together")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SECONDS:g} seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], metavar="ATTACK", help="a method of HostileTenant")
    parser.add_argument("--each", action="store_true", help="every attack by itself, one after the other")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args(words)


async def run_phases(stage: Stage, seconds: float, seed: int, only: list[str]) -> Verdict:
    honest = HonestTenant(stage.gateway, random.Random(seed))
    await honest.ask_for(WARM_UP_SECONDS)
    rounds = max(2, round(seconds / KINDS / PHASE_SECONDS))
    each = seconds / KINDS / rounds
    seen: list[Round] = []
    for number in range(rounds):
        alone, quiet = await measure(honest, stage, each)
        command = [sys.executable, "-m", "scripts.chaos_run.hostile", stage.gateway, stage.web]
        command += [str(seed + number), *only]
        with run_process(command) as hostile:
            await asyncio.to_thread(read_line, hostile)
            attacked, busy = await measure(honest, stage, each, [hostile.pid])
            if hostile.poll() is not None:
                raise RuntimeError("the hostile tenant gave up")
        await asyncio.sleep(REST_SECONDS)
        async with burn(busy.subtract(quiet)) as burners:
            control, burnt = await measure(honest, stage, each, burners)
        seen.append(Round(alone, attacked, control, max(rates.others for rates in (quiet, busy, burnt))))
    return Verdict.judge(seen)


async def measure(
    honest: HonestTenant, stage: Stage, seconds: float, beside: Sequence[int] = ()
) -> tuple[Window, CpuRates]:
    """What the honest tenant gets for a while, and who used the cores meanwhile."""
    before = CpuTimes.read(stage.processes, beside)
    window = await honest.ask_for(seconds)
    return window, before.compute_rates(CpuTimes.read(stage.processes, beside))


async def main(arguments: argparse.Namespace) -> int:
    seconds = QUICK_SECONDS if arguments.quick else arguments.seconds
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        async with open_stage(Path(directory)) as stage:
            for attack in ATTACKS if arguments.each else ():
                alone = await run_phases(stage, seconds / len(ATTACKS), arguments.seed, [attack])
                print(f"{attack}\n{alone.to_text()}\n", flush=True)
            if arguments.each:
                return 0
            verdict = await run_phases(stage, seconds, arguments.seed, arguments.only)
    print(verdict.to_text())
    if arguments.json is not None:
        arguments.json.write_bytes(orjson.dumps(verdict.to_json(), option=orjson.OPT_INDENT_2))
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parse_arguments(sys.argv[1:]))))
