"""Figures, targets, and what is said about each wrong case."""

import pytest

from gateway.evaluation.advice import NOT_ASSIGNED, REASONS, ThresholdEffects, advise_on_missed, advise_on_unexpected
from gateway.evaluation.cases import Case, Targets
from gateway.evaluation.figures import Figures, compute_figures, list_shortfalls
from gateway.evaluation.report import build_report, render_text
from gateway.evaluation.run import InjectedResource, Outcome, UnplacedResource


def outcome(expect: str, injected: str = "", unplaced: str = "") -> Outcome:
    """Of `a=.8 b=.6`: scores by resource; an injected one with a `+` came by expansion."""
    scored = [one.split("=") for one in injected.split()]
    kept = dict(one.split("=") for one in unplaced.split())
    return Outcome(
        Case("Q?", frozenset(expect.split()), line=7),
        tuple(InjectedResource(n.strip("+"), float(s), "expansion" if "+" in n else "semantic") for n, s in scored),
        {name: UnplacedResource(float(score), "below_threshold") for name, score in kept.items()},
    )


def test_precision_and_recall_look_at_cases_that_expect_something() -> None:
    outcomes = [
        outcome("a b", "a=.9 c=.6", "b=.4"),  # half right, half found
        outcome("a", "a=.8"),
        outcome("", "c=.9"),
        outcome("", "", "c=.1"),
    ]
    figures = compute_figures(outcomes)
    assert figures.precision == pytest.approx(2 / 3)
    assert figures.recall == 0.75
    assert figures.false_injections == 0.5


def test_the_first_is_the_best_score_whether_injected_or_not() -> None:
    figures = compute_figures(
        [outcome("a", "", "a=.4 b=.3"), outcome("a", "b=.9", "a=.4"), outcome("a", "b+=.9", "a=.4")]
    )
    assert figures.r_at_1 == pytest.approx(2 / 3)  # a cosine of an expansion is no probability


def test_what_was_not_measured_is_none() -> None:
    assert compute_figures([outcome("")]) == Figures(None, None, 0.0, None)
    assert compute_figures([outcome("a", "", "a=.1")]) == Figures(None, 0.0, None, 1.0)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (Targets(), []),
        (Targets(precision=0.8, recall=0.5, false_injections=0.1), []),
        (Targets(precision=0.81), ["precision is 0.800, target ≥ 0.81"]),
        (Targets(recall=0.51), ["recall is 0.500, target ≥ 0.51"]),
        (Targets(false_injections=0.09), ["false_injections is 0.100, target ≤ 0.09"]),
    ],
)
def test_a_target_is_reached_or_said_to_be_missed(targets: Targets, said: list[str]) -> None:
    assert list(list_shortfalls(Figures(0.8, 0.5, 0.1, 1.0), targets)) == said


def test_a_target_that_nothing_measures_is_missed() -> None:
    (said,) = list_shortfalls(Figures(None, 0.5, None, None), Targets(precision=0.1))
    assert "no case measures it" in said


def test_a_missed_resource_says_what_lowering_the_threshold_would_cost() -> None:
    missed = outcome("a", "", "a=.468")
    elsewhere = outcome("", "", "c=.47 b=.46 d=.2")
    told = advise_on_missed("a", missed, ThresholdEffects.build([missed, elsewhere]))
    assert told == (
        "add an example question like this one, or lower min_score to 0.46 (would inject 2 unexpected resources)"
    )


def test_nobody_is_told_to_let_in_everything() -> None:
    far = outcome("a", "", "a=.04")
    assert advise_on_missed("a", far, ThresholdEffects.build([far])) == "add an example question like this one"


def test_a_missed_resource_that_others_crowded_out_wants_a_larger_top_n() -> None:
    crowded = outcome("a", "b=.9 c=.6", "a=.65")
    assert advise_on_missed("a", crowded, ThresholdEffects.build([crowded])) == "2 others came first: raise top_n"


def test_a_missed_resource_that_is_not_assigned_says_so() -> None:
    lost = outcome("a", "", "b=.1")
    assert advise_on_missed("a", lost, ThresholdEffects.build([lost])) == NOT_ASSIGNED


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_of_the_selection_has_its_own_advice(reason: str) -> None:
    left = Outcome(Case("Q?", frozenset({"a"})), (), {"a": UnplacedResource(0.9, reason)})
    assert advise_on_missed("a", left, ThresholdEffects((), ())) == REASONS[reason]


def test_a_resource_beyond_the_shortlist_wants_examples() -> None:
    left = Outcome(Case("Q?", frozenset({"a"})), (), {"a": UnplacedResource(None, "below_threshold")})
    assert "did not make the shortlist" in advise_on_missed("a", left, ThresholdEffects((), ()))


def test_an_unexpected_resource_says_what_raising_the_threshold_would_cost() -> None:
    wrong = outcome("a", "b=.81", "a=.3")
    right = outcome("a", "a=.8")
    told = advise_on_unexpected(wrong.injected[0], wrong, ThresholdEffects.build([wrong, right]))
    assert told == (
        "give a an example question like this one, or raise min_score and include_score above 0.81 "
        "(would lose 1 expected resource), or expect it"
    )


def test_what_an_expansion_brought_points_at_its_threshold() -> None:
    wrong = outcome("", "b+=.81")
    assert advise_on_unexpected(wrong.injected[0], wrong, ThresholdEffects((), ())).startswith(
        "raise semantic.expansion.threshold"
    )


def test_a_person_reads_figures_wrong_cases_and_targets() -> None:
    shown = build_report([outcome("a", "b=.81", "a=.3"), outcome("b", "b=.9")], Targets(recall=0.6))
    text = render_text(shown)
    assert (shown["ok"], shown["figures"]["recall"]) == (False, 0.5)
    assert "  recall            0.500" in text
    assert "1 wrong case:\n  line 7: Q?\n    missed a, scored 0.30: add an example" in text
    assert "    injected b at 0.81 (semantic): give a an example" in text
    assert text.endswith("target missed: recall is 0.500, target ≥ 0.6")


def test_a_person_reads_that_all_is_well() -> None:
    text = render_text(build_report([outcome("b", "b=.9")], Targets(recall=0.6)))
    assert text.endswith("all targets are met")
    assert "false injections      –" in text
