"""Figures, targets, and what is said about each wrong case."""

import pytest

from gateway.evaluation.advice import OUT_OF_REACH, REASONS, Prices, for_missed, for_unexpected
from gateway.evaluation.cases import Case, Targets
from gateway.evaluation.figures import Figures, figures_of, shortfalls
from gateway.evaluation.report import as_text, report
from gateway.evaluation.run import Injected, Missing, Outcome


def outcome(expect: str, injected: str = "", left: str = "") -> Outcome:
    """Of `a=.8 b=.6`: scores by resource; an injected one with a `+` came by expansion."""
    scored = [one.split("=") for one in injected.split()]
    kept = dict(one.split("=") for one in left.split())
    return Outcome(
        Case("Q?", frozenset(expect.split()), line=7),
        tuple(Injected(n.strip("+"), float(s), "expansion" if "+" in n else "semantic") for n, s in scored),
        {name: Missing(float(score), "below_threshold") for name, score in kept.items()},
    )


def test_precision_and_recall_look_at_cases_that_expect_something() -> None:
    outcomes = [
        outcome("a b", "a=.9 c=.6", "b=.4"),  # half right, half found
        outcome("a", "a=.8"),
        outcome("", "c=.9"),
        outcome("", "", "c=.1"),
    ]
    figures = figures_of(outcomes)
    assert (figures.precision, figures.recall) == (pytest.approx(2 / 3), 0.75)
    assert figures.false_injections == 0.5


def test_the_first_is_the_best_score_whether_injected_or_not() -> None:
    figures = figures_of([outcome("a", "", "a=.4 b=.3"), outcome("a", "b=.9", "a=.4"), outcome("a", "b+=.9", "a=.4")])
    assert figures.r_at_1 == pytest.approx(2 / 3)  # a cosine of an expansion is no probability


def test_what_was_not_measured_is_none() -> None:
    assert figures_of([outcome("")]) == Figures(None, None, 0.0, None)
    assert figures_of([outcome("a", "", "a=.1")]) == Figures(None, 0.0, None, 1.0)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (Targets(), []),
        (Targets(precision=0.8, recall=0.5, false_injections=0.1), []),
        (Targets(precision=0.81), ["precision ≥ 0.81 is wanted, and it is 0.800"]),
        (Targets(recall=0.51), ["recall ≥ 0.51 is wanted, and it is 0.500"]),
        (Targets(false_injections=0.09), ["false_injections ≤ 0.09 is wanted, and it is 0.100"]),
    ],
)
def test_a_target_is_reached_or_said_to_be_missed(targets: Targets, said: list[str]) -> None:
    assert list(shortfalls(Figures(0.8, 0.5, 0.1, 1.0), targets)) == said


def test_a_target_that_nothing_measures_is_missed() -> None:
    (said,) = shortfalls(Figures(None, 0.5, None, None), Targets(precision=0.1))
    assert "no case measures it" in said


def test_a_missed_resource_says_what_lowering_the_threshold_would_cost() -> None:
    missed = outcome("a", "", "a=.468")
    elsewhere = outcome("", "", "c=.47 b=.46 d=.2")
    told = for_missed("a", missed, Prices.of([missed, elsewhere]))
    assert told == (
        "add an example question like this one, or lower min_score to 0.46 (would inject 2 that nobody expects)"
    )


def test_nobody_is_told_to_let_in_everything() -> None:
    far = outcome("a", "", "a=.04")
    assert for_missed("a", far, Prices.of([far])) == "add an example question like this one"


def test_a_missed_resource_that_others_crowded_out_wants_a_larger_top_n() -> None:
    crowded = outcome("a", "b=.9 c=.6", "a=.65")
    assert for_missed("a", crowded, Prices.of([crowded])) == "2 others came first: raise top_n"


def test_a_missed_resource_that_was_never_in_reach_says_so() -> None:
    lost = outcome("a", "", "b=.1")
    assert for_missed("a", lost, Prices.of([lost])) == OUT_OF_REACH


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_of_the_selection_has_its_own_advice(reason: str) -> None:
    left = Outcome(Case("Q?", frozenset({"a"})), (), {"a": Missing(0.9, reason)})
    assert for_missed("a", left, Prices((), ())) == REASONS[reason]


def test_a_resource_beyond_the_shortlist_wants_examples() -> None:
    left = Outcome(Case("Q?", frozenset({"a"})), (), {"a": Missing(None, "below_threshold")})
    assert "not among the resources that were looked at closely" in for_missed("a", left, Prices((), ()))


def test_an_unexpected_resource_says_what_raising_the_threshold_would_cost() -> None:
    wrong = outcome("a", "b=.81", "a=.3")
    right = outcome("a", "a=.8")
    told = for_unexpected(wrong.injected[0], wrong, Prices.of([wrong, right]))
    assert told == (
        "give a an example question like this one, or raise min_score and include_score above 0.81 "
        "(would lose 1 that are expected), or expect it"
    )


def test_what_an_expansion_brought_points_at_its_threshold() -> None:
    wrong = outcome("", "b+=.81")
    assert for_unexpected(wrong.injected[0], wrong, Prices((), ())).startswith("raise semantic.expansion.threshold")


def test_a_person_reads_figures_wrong_cases_and_targets() -> None:
    shown = report([outcome("a", "b=.81", "a=.3"), outcome("b", "b=.9")], Targets(recall=0.6))
    text = as_text(shown)
    assert (shown["ok"], shown["figures"]["recall"]) == (False, 0.5)
    assert "  recall            0.500" in text
    assert "1 cases are wrong:\n  line 7: Q?\n    missed a, scored 0.30: add an example" in text
    assert "    injected b at 0.81 (semantic): give a an example" in text
    assert text.endswith("target missed: recall ≥ 0.6 is wanted, and it is 0.500")


def test_a_person_reads_that_all_is_well() -> None:
    text = as_text(report([outcome("b", "b=.9")], Targets(recall=0.6)))
    assert text.endswith("all targets are reached")
    assert "false injections      –" in text
