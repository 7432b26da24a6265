"""The outcome of an evaluation, as data and for a person."""

from collections.abc import Iterator, Sequence
from typing import Any

from gateway.evaluation.advice import ThresholdEffects, advise_on_missed, advise_on_unexpected
from gateway.evaluation.cases import Targets
from gateway.evaluation.figures import Figures, compute_figures, list_shortfalls
from gateway.evaluation.run import Outcome

LABELS = (
    ("precision", "precision", "of what was injected, how much was expected"),
    ("recall", "recall", "of what is expected, how much was injected"),
    ("false_injections", "false injections", "cases that expect nothing and got something"),
    ("r_at_1", "R@1", "cases whose best score is an expected resource's"),
)


def build_report(outcomes: Sequence[Outcome], targets: Targets) -> dict[str, Any]:
    """Figures, missed targets, and each wrong case with what would have to change."""
    figures = compute_figures(outcomes)
    missed = list(list_shortfalls(figures, targets))
    return {
        "ok": not missed,
        "cases": len(outcomes),
        "expecting_nothing": sum(not outcome.case.expect for outcome in outcomes),
        "figures": figures.to_dict(),
        "targets": targets.model_dump(exclude_none=True),
        "missed_targets": missed,
        "wrong": list(list_wrong_cases(outcomes)),
    }


def list_wrong_cases(outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    effects = ThresholdEffects.build(outcomes)
    for outcome in outcomes:
        if outcome.missed_ids or outcome.unexpected_resources:
            about = {"question": outcome.case.question, "line": outcome.case.line}
            yield about | describe_mistakes(outcome, effects)


def describe_mistakes(outcome: Outcome, effects: ThresholdEffects) -> dict[str, Any]:
    """What a case missed and what it got unexpectedly, each with what would have to change."""
    return {
        "missed": [
            {"id": name, "score": get_score(outcome, name), "change": advise_on_missed(name, outcome, effects)}
            for name in outcome.missed_ids
        ],
        "unexpected": [
            {
                "id": one.resource,
                "score": round(one.score, 4),
                "via": one.via,
                "change": advise_on_unexpected(one, outcome, effects),
            }
            for one in outcome.unexpected_resources
        ],
    }


def get_score(outcome: Outcome, name: str) -> float | None:
    unplaced = outcome.unplaced.get(name)
    return None if unplaced is None or unplaced.score is None else round(unplaced.score, 4)


def render_text(shown: dict[str, Any]) -> str:
    """The same for a person."""
    lines = [f"{shown['cases']} cases, {shown['expecting_nothing']} expecting nothing"]
    lines += render_figures(shown["figures"])
    if shown["wrong"]:
        count = len(shown["wrong"])
        lines += ["", "1 wrong case:" if count == 1 else f"{count} wrong cases:"]
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
        lines += ["", "all targets are met"]
    return "\n".join(lines)


def render_figures(figures: dict[str, float | None]) -> list[str]:
    values = ((figures[key], label, meaning) for key, label, meaning in LABELS)
    return [f"  {label:17}{'–' if value is None else f'{value:.3f}':>6}  {meaning}" for value, label, meaning in values]


def render_in_one_line(figures: Figures) -> str:
    """The figures next to each other, to compare two of them."""
    values = ((getattr(figures, key), label) for key, label, _ in LABELS)
    return ", ".join(f"{label} {'–' if value is None else f'{value:.3f}'}" for value, label in values)
