"""The outcome of an evaluation, as data and for a person."""

from collections.abc import Iterator, Sequence
from typing import Any

from gateway.evaluation.advice import Prices, for_missed, for_unexpected
from gateway.evaluation.cases import Targets
from gateway.evaluation.figures import Figures, figures_of, shortfalls
from gateway.evaluation.run import Outcome

LABELS = (
    ("precision", "precision", "of what was injected, how much was expected"),
    ("recall", "recall", "of what is expected, how much was injected"),
    ("false_injections", "false injections", "cases that expect nothing and got something"),
    ("r_at_1", "R@1", "cases whose best score is an expected resource's"),
)


def report(outcomes: Sequence[Outcome], targets: Targets) -> dict[str, Any]:
    """Figures, missed targets, and each wrong case with what would have to change."""
    figures = figures_of(outcomes)
    missed = list(shortfalls(figures, targets))
    return {
        "ok": not missed,
        "cases": len(outcomes),
        "expecting_nothing": sum(not outcome.case.expect for outcome in outcomes),
        "figures": figures.as_dict(),
        "targets": targets.model_dump(exclude_none=True),
        "missed_targets": missed,
        "wrong": list(wrong_cases(outcomes)),
    }


def wrong_cases(outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    prices = Prices.of(outcomes)
    for outcome in outcomes:
        if outcome.missed or outcome.unexpected:
            yield {
                "question": outcome.case.question,
                "line": outcome.case.line,
                "missed": [
                    {"id": name, "score": score_of(outcome, name), "change": for_missed(name, outcome, prices)}
                    for name in outcome.missed
                ],
                "unexpected": [
                    {
                        "id": one.resource,
                        "score": round(one.score, 4),
                        "via": one.via,
                        "change": for_unexpected(one, outcome, prices),
                    }
                    for one in outcome.unexpected
                ],
            }


def score_of(outcome: Outcome, name: str) -> float | None:
    left = outcome.left.get(name)
    return None if left is None or left.score is None else round(left.score, 4)


def as_text(shown: dict[str, Any]) -> str:
    """The same for a person."""
    lines = [f"{shown['cases']} cases, {shown['expecting_nothing']} of which expect nothing"]
    lines += figure_lines(shown["figures"])
    if shown["wrong"]:
        lines += ["", f"{len(shown['wrong'])} cases are wrong:"]
    for wrong in shown["wrong"]:
        lines.append(f"  line {wrong['line']}: {wrong['question']}")
        for one in wrong["missed"]:
            scored = "without a score" if one["score"] is None else f"scored {one['score']:.2f}"
            lines.append(f"    missed {one['id']}, {scored}: {one['change']}")
        for one in wrong["unexpected"]:
            lines.append(f"    injected {one['id']} at {one['score']:.2f} ({one['via']}): {one['change']}")
    if shown["missed_targets"]:
        lines += ["", *(f"target missed: {sentence}" for sentence in shown["missed_targets"])]
    elif shown["targets"]:
        lines += ["", "all targets are reached"]
    return "\n".join(lines)


def figure_lines(figures: dict[str, float | None]) -> list[str]:
    values = ((figures[key], label, meaning) for key, label, meaning in LABELS)
    return [f"  {label:17}{'–' if value is None else f'{value:.3f}':>6}  {meaning}" for value, label, meaning in values]


def in_a_line(figures: Figures) -> str:
    """The figures next to each other, to compare two of them."""
    values = ((getattr(figures, key), label) for key, label, _ in LABELS)
    return ", ".join(f"{label} {'–' if value is None else f'{value:.3f}'}" for value, label in values)
