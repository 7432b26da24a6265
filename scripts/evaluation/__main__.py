"""`scripts/eval-banking`: asks banking77's test questions through the gateway's own walk of a request."""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evaluation.banking import Banking, elsewhere, write_policies
from evaluation.replay import Replayed, replayed
from evaluation.traffic import SUPPORT, WORDINGS_ONLY, Message, log_of
from gateway.app import Gateway
from gateway.commands.index import Shown, indexed, patient
from gateway.evaluation.cases import Case
from gateway.evaluation.figures import Figures, figures_of
from gateway.evaluation.report import in_a_line
from gateway.evaluation.run import Runner, outcome_of
from gateway.settings import Settings

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "banking77"
REMEMBERED = 0.6  # of the selections of a support log
TARGETS = (
    ("R@1", "r_at_1", "≥", 0.82),
    ("precision", "precision", "≥", 0.85),
    ("recall", "recall", "≥", 0.75),
    ("false injections", "false_injections", "≤", 0.02),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure beside its target."""

    name: str
    figure: float
    sign: str
    target: float

    @property
    def passed(self) -> bool:
        return self.figure >= self.target if self.sign == "≥" else self.figure <= self.target

    def __str__(self) -> str:
        return f"{self.name:18}{self.figure:.3f}  {self.sign} {self.target:.2f}  {'pass' if self.passed else 'FAIL'}"


def main(arguments: Sequence[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    try:
        banking = Banking.read(given.data)
    except FileNotFoundError as error:
        print(f"banking77 is not there ({error.filename}): name its folder, with train.csv and test.csv, by --data.")
        return 2
    if given.replay:
        return replay(banking, given)
    began = time.monotonic()
    draws = [drawn(banking, given, given.seed + number) for number in range(given.draws)]
    mean = mean_of(draws)
    if given.json:
        seconds = round(time.monotonic() - began, 1)
        print(json.dumps({"seconds": seconds, "mean": mean.as_dict(), "draws": [draw.as_dict() for draw in draws]}))
    else:
        for number, draw in enumerate(draws):
            print(f"seed {given.seed + number}: {in_a_line(draw)}")
        print(*verdicts(mean), sep="\n")
    return 0 if all(verdict.passed for verdict in verdicts(mean)) else 1


def drawn(banking: Banking, given: argparse.Namespace, seed: int) -> Figures:
    """The figures with one draw of the examples: which five a resource gets is worth a point or two."""
    if given.intents:
        banking = banking.thinned(seed, given.intents)
    cases = [*banking.cases(seed, given.quick), *elsewhere()]
    with tempfile.TemporaryDirectory(prefix="eval-banking-") as directory:
        write_policies(banking.policies(seed), Path(directory))
        return asyncio.run(measured(settings(Path(directory), given), cases))


def replay(banking: Banking, given: argparse.Namespace) -> int:
    """A log of conversations instead of the figures: how much of it is answered from what was made before."""
    rows = [*banking.train, *banking.test]
    found = {}
    with tempfile.TemporaryDirectory(prefix="eval-banking-") as directory:
        write_policies(banking.policies(given.seed), Path(directory))
        for name, traffic in (("support", SUPPORT), ("wordings only", WORDINGS_ONLY)):
            log = log_of(rows, traffic, given.seed, given.replay)
            found[name] = asyncio.run(walked(settings(Path(directory), given), log))
    if given.json:
        print(json.dumps({name: asdict(one) | {"share": one.share} for name, one in found.items()}))
    else:
        print(*(f"{name}: {one}" for name, one in found.items()), sep="\n")
        print(Verdict("remembered", found["support"].share, "≥", REMEMBERED))
    return 0 if found["support"].share >= REMEMBERED else 1


async def walked(settings: Settings, log: Iterable[list[Message]]) -> Replayed:
    gateway = await Gateway.open(patient(settings))
    try:
        async with indexed(gateway, Shown(sys.stderr)):
            return await replayed(gateway.pipeline, gateway.policies.current, log)
    finally:
        await gateway.close()


def mean_of(draws: Sequence[Figures]) -> Figures:
    """Figure by figure; a draw without one counts for nothing."""
    known = {
        name: [value for draw in draws if (value := getattr(draw, name)) is not None]
        for name in Figures.__dataclass_fields__
    }
    return Figures(**{name: statistics.fmean(values) if values else None for name, values in known.items()})


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="scripts/eval-banking", description=__doc__)
    root.add_argument("--data", type=Path, default=DATA, help="the folder with train.csv and test.csv")
    root.add_argument("--quick", type=int, metavar="N", help="a sample of N test questions")
    root.add_argument("--intents", type=int, metavar="N", help="only N of the 77 intents, as a small set of policies")
    root.add_argument("--draws", type=int, default=3, metavar="N", help="of the examples; their mean is judged (3)")
    root.add_argument("--seed", type=int, default=1, help="of the first draw (1)")
    root.add_argument("--preset", choices=["conservative", "normal", "aggressive"], default="normal")
    root.add_argument("--calibration", type=Path, metavar="FILE", help="coefficients in place of those that come along")
    root.add_argument(
        "--replay", type=int, metavar="N", help="replay N conversations instead, and show what the caches save"
    )
    root.add_argument("--json", action="store_true")
    return root


def settings(policies: Path, given: argparse.Namespace) -> Settings:
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


async def measured(settings: Settings, cases: Sequence[Case]) -> Figures:
    gateway = await Gateway.open(patient(settings))
    try:
        async with indexed(gateway, Shown(sys.stderr)):
            runner = Runner(gateway.pipeline, gateway.policies.current)
            prepared = [(case, await runner.prepare(case)) for case in cases]
    finally:
        await gateway.close()
    return figures_of([outcome_of(case, one.injection.selection) for case, one in prepared])


def verdicts(figures: Figures) -> list[Verdict]:
    """A figure that could not be measured counts as the worst there is."""
    found = [(name, getattr(figures, key), sign, target) for name, key, sign, target in TARGETS]
    worst = {"≥": 0.0, "≤": 1.0}
    return [
        Verdict(name, worst[sign] if figure is None else figure, sign, target) for name, figure, sign, target in found
    ]


if __name__ == "__main__":
    sys.exit(main())
