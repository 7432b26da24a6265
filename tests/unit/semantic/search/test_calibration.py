"""Coefficients that turn features into a probability."""

import json

import numpy as np
import pytest

from gateway.semantic.search.calibration import Calibration, refit
from gateway.semantic.search.scoring import FEATURES

STORED = {
    "features": ["dense", "foreign"],
    "intercept": -1.0,
    "weights": {"dense": 2.0, "dense>0.5": 4.0, "dense*foreign": -3.0},
}


def chance(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))


def test_features_bends_and_products_add_up() -> None:
    rows = np.array([[0.4, 0.0], [0.7, 0.0], [0.7, 1.0]], np.float32)
    expected = [chance(-1 + 0.8), chance(-1 + 1.4 + 0.8), chance(-1 + 1.4 + 0.8 - 2.1)]
    assert Calibration.from_json(STORED).predict(rows).tolist() == pytest.approx(expected, abs=1e-5)


def test_the_shape_of_the_rows_is_kept() -> None:
    assert Calibration.from_json(STORED).predict(np.zeros((3, 5, 2), np.float32)).shape == (3, 5)


def test_extreme_features_stay_within_bounds() -> None:
    rows = np.array([[1e9, 0], [-1e9, 0]], np.float32)
    assert Calibration.from_json(STORED).predict(rows).tolist() == pytest.approx([1, 0])


@pytest.mark.parametrize("term", ["unheard", "unheard>0.5", "dense*unheard"])
def test_a_term_of_an_unknown_feature_is_refused_when_loading(term: str) -> None:
    with pytest.raises(KeyError):
        Calibration.from_json({**STORED, "weights": {term: 1.0}})


def test_what_is_written_reads_the_same() -> None:
    stored = Calibration.from_json(STORED).to_json()
    assert json.loads(json.dumps(stored)) == STORED


def test_the_shipped_coefficients_fit_the_features() -> None:
    assert Calibration.load().features == FEATURES


def features(**values: float) -> np.ndarray:
    usual = {"query_terms": 2.2, "resources": 4.0}
    return np.array([{**dict.fromkeys(FEATURES, 0.0), **usual, **values}[name] for name in FEATURES], np.float32)


def test_the_shipped_coefficients_tell_a_clear_match_from_a_stranger() -> None:
    clear = features(
        dense=0.75, central=0.75, focused=0.75, focused_lead=0.3, dense_lead=0.3, lead=0.45,
        dense_z=4, lexical=1, matched=0.4, coverage=0.7,
        lexical_lead=0.5, lexical_z=4,
    )  # fmt: skip
    stranger = features(
        dense=0.15, central=0.15, focused=0.15, focused_lead=0.02, dense_lead=0.02, lead=0.02,
        dense_z=2, lexical=1, matched=0.1, coverage=0.1,
        lexical_lead=0.1, lexical_z=2,
    )  # fmt: skip
    sure, unlikely = Calibration.load().predict(np.stack([clear, stranger]))
    assert sure > 0.9
    assert unlikely < 0.1


PRIOR = Calibration(("dense", "constant"), ("dense", "constant"), np.array([4.0, 1.0], np.float32), -3.0)


def draw_rows(count: int, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose label depends on whether `dense` exceeds a threshold."""
    dense = np.random.default_rng(1).uniform(0, 1, count).astype(np.float32)
    return np.stack([dense, np.ones(count, np.float32)], -1), dense > threshold


def predict(calibration: Calibration, dense: float) -> float:
    return float(calibration.predict(np.array([[dense, 1.0]], np.float32))[0])


def test_a_threshold_that_is_higher_here_is_learned() -> None:
    fitted = refit(PRIOR, *draw_rows(1000, 0.8))
    assert predict(PRIOR, 0.7) > 0.5
    assert predict(fitted, 0.7) < 0.5
    assert predict(fitted, 0.95) > 0.6


def test_little_feedback_moves_little_and_more_moves_more() -> None:
    shifts = [abs(predict(refit(PRIOR, *draw_rows(count, 0.8)), 0.7) - predict(PRIOR, 0.7)) for count in (4, 40, 400)]
    assert shifts == sorted(shifts)
    assert shifts[0] < 0.1


def test_what_never_varies_keeps_its_coefficient() -> None:
    assert refit(PRIOR, *draw_rows(100, 0.8)).weights[1] == pytest.approx(1.0)


def test_labels_that_the_prior_foresees_change_hardly_anything() -> None:
    rows, _ = draw_rows(1000, 0.5)
    likely = np.random.default_rng(2).uniform(0, 1, 1000) < PRIOR.predict(rows)
    assert predict(refit(PRIOR, rows, likely), 0.7) == pytest.approx(predict(PRIOR, 0.7), abs=0.05)
