"""A refit on cases: judged on cases that it has not seen, refused where there are too few."""

import numpy as np
import pytest

from gateway.errors import ServiceUnavailable
from gateway.evaluation.cases import Case
from gateway.evaluation.refit import FEWEST, LabelledCase, compute_outcome, refit_on_cases
from gateway.semantic.search.calibration import Calibration

PRIOR = Calibration(("dense",), ("dense",), np.array([8.0], np.float32), -4.0)  # even odds at .5


def judged(count: int, threshold: float) -> list[LabelledCase]:
    """Cases with ten resources each, of which those above a threshold are expected."""
    rng = np.random.default_rng(3)
    names = tuple(f"c/r{number}" for number in range(10))
    cases = []
    for _ in range(count):
        dense = rng.uniform(0, 1, (10, 1)).astype(np.float32)
        right = dense[:, 0] > threshold
        expect = frozenset(name for name, one in zip(names, right, strict=True) if one)
        cases.append(LabelledCase(Case("Q?", expect), names, dense, right))
    return cases


def test_a_set_that_needs_a_higher_threshold_gets_one() -> None:
    made = refit_on_cases(PRIOR, judged(200, 0.8))
    assert made.is_better
    assert made.before.precision is not None
    assert made.after.precision is not None
    assert made.after.precision > made.before.precision + 0.2
    assert made.calibration.predict(np.array([[0.6]], np.float32))[0] < 0.5


def test_cases_that_contradict_each_other_do_not_help() -> None:
    """Of four resources that look the same, each fold expects another number: the others' mean leads away from it."""
    names = ("c/a", "c/b", "c/c", "c/d")
    same = np.full((4, 1), 0.5, np.float32)
    cases = [
        LabelledCase(Case("Q?", frozenset(names[: number % 5])), names, same, np.arange(4) < number % 5)
        for number in range(FEWEST)
    ]
    assert not refit_on_cases(PRIOR, cases).is_better


def test_too_few_cases_are_refused() -> None:
    with pytest.raises(ServiceUnavailable, match="at least 20 cases that shortlist resources; there are 19"):
        refit_on_cases(PRIOR, judged(FEWEST - 1, 0.8))


def test_an_outcome_keeps_the_scores_of_what_is_left() -> None:
    (one,) = judged(1, 0.8)
    outcome = compute_outcome(one, PRIOR)
    assert all(injected.score >= 0.5 for injected in outcome.injected)
    assert {injected.resource for injected in outcome.injected} | set(outcome.unplaced) == set(one.names)
