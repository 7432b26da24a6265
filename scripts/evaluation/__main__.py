"""`scripts/eval-banking`: asks banking77's test questions through the gateway's own walk of a request."""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.banking import Banking, elsewhere, write_policies
from gateway.app import Gateway
from gateway.commands.index import Shown, indexed, patient
from gateway.evaluation.cases import Case
from gateway.evaluation.figures import Figures, figures_of
from gateway.evaluation.run import Runner, outcome_of
from gateway.settings import Settings

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "banking77"
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
    cases = [*banking.cases(given.seed, given.quick), *elsewhere()]
    with tempfile.TemporaryDirectory(prefix="eval-banking-") as directory:
        write_policies(banking.policies(given.seed), Path(directory))
        began = time.monotonic()
        figures = asyncio.run(measured(settings(Path(directory), given), cases))
    seconds = time.monotonic() - began
    if given.json:
        print(json.dumps({"cases": len(cases), "seed": given.seed, "seconds": round(seconds, 1), **figures.as_dict()}))
    else:
        print(f"banking77: {len(cases)} questions, {len(elsewhere())} of them from elsewhere, in {seconds:.0f} s")
        print(*verdicts(figures), sep="\n")
    return 0 if all(verdict.passed for verdict in verdicts(figures)) else 1


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="scripts/eval-banking", description=__doc__)
    root.add_argument("--data", type=Path, default=DATA, help="the folder with train.csv and test.csv")
    root.add_argument("--quick", type=int, metavar="N", help="a sample of N test questions")
    root.add_argument("--seed", type=int, default=1, help="of the examples and the sample (1)")
    root.add_argument("--preset", choices=["conservative", "normal", "aggressive"], default="normal")
    root.add_argument("--calibration", type=Path, metavar="FILE", help="coefficients in place of those that come along")
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
