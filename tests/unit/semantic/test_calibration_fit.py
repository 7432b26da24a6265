"""A refit leans on the shipped coefficients and moves as far as the feedback justifies."""

import numpy as np
import pytest

from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.calibration.fit import refit

PRIOR = Calibration(("dense", "constant"), ("dense", "constant"), np.array([4.0, 1.0], np.float32), -3.0)


def drawn(count: int, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose label depends on whether `dense` exceeds a threshold."""
    dense = np.random.default_rng(1).uniform(0, 1, count).astype(np.float32)
    return np.stack([dense, np.ones(count, np.float32)], -1), dense > threshold


def chance(calibration: Calibration, dense: float) -> float:
    return float(calibration.probability(np.array([[dense, 1.0]], np.float32))[0])


def test_a_threshold_that_is_higher_here_is_learned() -> None:
    fitted = refit(PRIOR, *drawn(1000, 0.8))
    assert chance(PRIOR, 0.7) > 0.5
    assert chance(fitted, 0.7) < 0.5
    assert chance(fitted, 0.95) > 0.6


def test_little_feedback_moves_little_and_more_moves_more() -> None:
    shifts = [abs(chance(refit(PRIOR, *drawn(count, 0.8)), 0.7) - chance(PRIOR, 0.7)) for count in (4, 40, 400)]
    assert shifts == sorted(shifts)
    assert shifts[0] < 0.1


def test_what_never_varies_keeps_its_coefficient() -> None:
    assert refit(PRIOR, *drawn(100, 0.8)).weights[1] == pytest.approx(1.0)


def test_labels_that_the_prior_foresees_change_hardly_anything() -> None:
    rows, _ = drawn(1000, 0.5)
    likely = np.random.default_rng(2).uniform(0, 1, 1000) < PRIOR.probability(rows)
    assert chance(refit(PRIOR, rows, likely), 0.7) == pytest.approx(chance(PRIOR, 0.7), abs=0.05)
