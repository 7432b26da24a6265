"""How good a set of outcomes is, in four figures, and which targets it misses."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import asdict

from gateway.evaluation.cases import Targets
from gateway.evaluation.run import Outcome


class Figures(msgspec.Struct, frozen=True):
    """Shares from 0 to 1; None where there was nothing to measure."""

    precision: float | None  # of what was injected where something is expected: how much was expected
    recall: float | None  # of what is expected: how much was injected, averaged over cases
    false_injections: float | None  # of the cases that expect nothing: how many got something
    r_at_1: float | None  # of the cases that expect something: how often the best score is an expected one's

    def to_dict(self) -> dict[str, float | None]:
        return {name: None if value is None else round(value, 4) for name, value in asdict(self).items()}


def compute_figures(outcomes: Sequence[Outcome]) -> Figures:
    answered = [outcome for outcome in outcomes if outcome.case.expect]
    silent = [outcome for outcome in outcomes if not outcome.case.expect]
    injected = sum(len(outcome.injected) for outcome in answered)
    return Figures(
        precision=compute_share(sum(outcome.hits for outcome in answered), injected),
        recall=compute_share(sum(outcome.hits / len(outcome.case.expect) for outcome in answered), len(answered)),
        false_injections=compute_share(sum(bool(outcome.injected) for outcome in silent), len(silent)),
        r_at_1=compute_share(sum(outcome.best_id in outcome.case.expect for outcome in answered), len(answered)),
    )


def compute_share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def list_shortfalls(figures: Figures, targets: Targets) -> Iterator[str]:
    """A sentence for every target that is missed; what could not be measured has not been reached."""
    compared = (
        ("precision", figures.precision, "≥", targets.precision),
        ("recall", figures.recall, "≥", targets.recall),
        ("false_injections", figures.false_injections, "≤", targets.false_injections),
    )
    for name, figure, sign, target in compared:
        if target is None:
            continue
        if figure is None:
            yield f"{name} has a target of {sign} {target:g}, but no case measures it"
        elif (figure < target) if sign == "≥" else (figure > target):
            yield f"{name} is {figure:.3f}, target {sign} {target:g}"
