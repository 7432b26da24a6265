"""Coefficients that turn features into a probability."""

import json

import numpy as np
import pytest

from gateway.semantic.search.calibration import Calibration
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
    assert Calibration.from_json(STORED).probability(rows).tolist() == pytest.approx(expected, abs=1e-5)


def test_the_shape_of_the_rows_is_kept() -> None:
    assert Calibration.from_json(STORED).probability(np.zeros((3, 5, 2), np.float32)).shape == (3, 5)


def test_extreme_features_stay_within_bounds() -> None:
    rows = np.array([[1e9, 0], [-1e9, 0]], np.float32)
    assert Calibration.from_json(STORED).probability(rows).tolist() == pytest.approx([1, 0])


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
    sure, unlikely = Calibration.load().probability(np.stack([clear, stranger]))
    assert sure > 0.9
    assert unlikely < 0.1
