"""`scripts/eval-banking`: asks banking77's test questions through the pipeline of a request."""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from gateway.app import Gateway
from gateway.commands.indexing import ProgressBar, extend_search_deadline, run_indexer
from gateway.evaluation.cases import Case
from gateway.evaluation.figures import Figures, compute_figures
from gateway.evaluation.report import render_in_one_line
from gateway.evaluation.run import CaseRunner, read_outcome
from gateway.settings import Settings
from scripts.banking_eval.banking import Banking, read_off_topic_cases, write_policies
from scripts.banking_eval.replay import ReplayResult, replay_log
from scripts.banking_eval.traffic import SUPPORT, WORDINGS_ONLY, Message, draw_log
from scripts.benchmark.report import Verdict

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "banking77"
CACHED = 0.6  # of the selections of a support log
TARGETS = (
    ("R@1", "r_at_1", "≥", 0.82),
    ("precision", "precision", "≥", 0.85),
    ("recall", "recall", "≥", 0.75),
    ("false injections", "false_injections", "≤", 0.02),
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = build_parser().parse_args(arguments)
    try:
        banking = Banking.read(given.data)
    except FileNotFoundError as error:
        print(f"banking77 is missing ({error.filename}): name the folder with train.csv and test.csv by --data.")
        return 2
    if given.replay:
        return replay(banking, given)
    began = time.monotonic()
    draws = [measure_draw(banking, given, given.seed + number) for number in range(given.draws)]
    mean = compute_mean(draws)
    if given.json:
        seconds = round(time.monotonic() - began, 1)
        print(json.dumps({"seconds": seconds, "mean": mean.to_dict(), "draws": [draw.to_dict() for draw in draws]}))
    else:
        for number, draw in enumerate(draws):
            print(f"seed {given.seed + number}: {render_in_one_line(draw)}")
        print(*map(render_verdict, compute_verdicts(mean)), sep="\n")
    return 0 if all(verdict.passed for verdict in compute_verdicts(mean)) else 1


def measure_draw(banking: Banking, given: argparse.Namespace, seed: int) -> Figures:
    """The figures with one draw of the examples: which five a resource gets is worth a point or two."""
    if given.intents:
        banking = banking.select_intents(seed, given.intents)
    cases = [*banking.build_cases(seed, given.quick), *read_off_topic_cases()]
    with tempfile.TemporaryDirectory(prefix="eval-banking-") as directory:
        write_policies(banking.build_policies(seed), Path(directory))
        return asyncio.run(measure(build_settings(Path(directory), given), cases))


def replay(banking: Banking, given: argparse.Namespace) -> int:
    """A log of conversations instead of the figures: how many of its selections come from the cache."""
    rows = [*banking.train, *banking.test]
    found = {}
    with tempfile.TemporaryDirectory(prefix="eval-banking-") as directory:
        write_policies(banking.build_policies(given.seed), Path(directory))
        for name, traffic in (("support", SUPPORT), ("wordings only", WORDINGS_ONLY)):
            log = draw_log(rows, traffic, given.seed, given.replay)
            found[name] = asyncio.run(replay_in_gateway(build_settings(Path(directory), given), log))
    if given.json:
        print(json.dumps({name: asdict(one) | {"share": one.share} for name, one in found.items()}))
    else:
        print(*(f"{name}: {one}" for name, one in found.items()), sep="\n")
        print(render_verdict(Verdict("cached", found["support"].share, "≥", CACHED)))
    return 0 if found["support"].share >= CACHED else 1


async def replay_in_gateway(settings: Settings, log: Iterable[list[Message]]) -> ReplayResult:
    gateway = await Gateway.open(extend_search_deadline(settings))
    try:
        async with run_indexer(gateway, ProgressBar(sys.stderr)):
            return await replay_log(gateway.pipeline, gateway.policies.current, log)
    finally:
        await gateway.close()


def compute_mean(draws: Sequence[Figures]) -> Figures:
    """Figure by figure; a draw without one counts for nothing."""
    known = {
        name: [value for draw in draws if (value := getattr(draw, name)) is not None]
        for name in Figures.__struct_fields__
    }
    return Figures(**{name: statistics.fmean(values) if values else None for name, values in known.items()})


def build_parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="scripts/eval-banking", description=__doc__)
    root.add_argument("--data", type=Path, default=DATA, help="the folder with train.csv and test.csv")
    root.add_argument("--quick", type=int, metavar="N", help="a sample of N test questions")
    root.add_argument("--intents", type=int, metavar="N", help="only N of the 77 intents, as a small set of policies")
    root.add_argument("--draws", type=int, default=3, metavar="N", help="of the examples; their mean is judged (3)")
    root.add_argument("--seed", type=int, default=1, help="of the first draw (1)")
    root.add_argument("--preset", choices=["conservative", "normal", "aggressive"], default="normal")
    root.add_argument("--calibration", type=Path, metavar="FILE", help="coefficients instead of the shipped ones")
    root.add_argument(
        "--replay", type=int, metavar="N", help="replay N conversations instead, and show what the caches save"
    )
    root.add_argument("--json", action="store_true")
    return root


def build_settings(policies: Path, given: argparse.Namespace) -> Settings:
    calibration = str(given.calibration.absolute()) if given.calibration else None
    return Settings.model_validate(
        {
            "policies": str(policies),
            "store": "memory:",
            "upstreams": {"demo": {"kind": "demo"}},
            "routes": [{"model": "*", "upstream": "demo"}],
            "defaults": {"model": "demo"},
            "semantic": {"preset": given.preset, "calibration": calibration},
        }
    )


async def measure(settings: Settings, cases: Sequence[Case]) -> Figures:
    gateway = await Gateway.open(extend_search_deadline(settings))
    try:
        async with run_indexer(gateway, ProgressBar(sys.stderr)):
            runner = CaseRunner(gateway.pipeline, gateway.policies.current)
            prepared = [(case, await runner.prepare(case)) for case in cases]
    finally:
        await gateway.close()
    return compute_figures([read_outcome(case, one.injection.selection) for case, one in prepared])


def compute_verdicts(figures: Figures) -> list[Verdict]:
    """A figure that could not be measured counts as the worst there is."""
    found = [(name, getattr(figures, key), sign, target) for name, key, sign, target in TARGETS]
    worst = {"≥": 0.0, "≤": 1.0}
    return [
        Verdict(name, worst[sign] if figure is None else figure, sign, target) for name, figure, sign, target in found
    ]


def render_verdict(verdict: Verdict) -> str:
    return f"{verdict.name:18}{verdict.figure:.3f}  {verdict.sign} {verdict.target:.2f}  {verdict.word}"


if __name__ == "__main__":
    sys.exit(main())
