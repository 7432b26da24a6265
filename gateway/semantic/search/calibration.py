"""Turns features into the probability that a resource is relevant; scripts/train-calibration fits the coefficients."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.vector_index import Floats
from gateway.semantic.model.embedder import SemanticError

LATEST = "calibration_v2.json"
STIFFNESS = 30.0  # of every coefficient, in standard deviations of its input: measured best for 20 to 200 cases
STEPS = 50
_CLIP = 30.0  # beyond it exp overflows in float32 and nothing changes any more

Doubles = NDArray[np.float64]


class Calibration(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A logistic regression over features, bends ("dense>0.35") and products ("dense*foreign") of features."""

    features: tuple[str, ...]
    terms: tuple[str, ...]
    weights: Floats
    intercept: float

    @classmethod
    def load(cls, name: str = LATEST) -> Self:
        """The coefficients of a version that is part of the package."""
        text = resources.files(__package__).joinpath(name).read_text("utf-8")
        return cls.from_json(json.loads(text))

    @classmethod
    def read(cls, path: Path, features: Sequence[str]) -> Self:
        """The coefficients of a fitted file; raises SemanticError unless they are for these features."""
        try:
            calibration = cls.from_json(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SemanticError(f"The calibration {path} cannot be used: {error}.") from error
        if calibration.features != tuple(features):
            raise SemanticError(f"The calibration {path} is out of date: fit it again with `gateway eval --fit`.")
        return calibration

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """As written by `to_json`; raises KeyError for a term of a feature that is not listed."""
        weights: dict[str, float] = stored["weights"]
        calibration = cls(
            tuple(stored["features"]), tuple(weights), np.array([*weights.values()], np.float32), stored["intercept"]
        )
        _ = calibration._plan  # an unknown feature is found here, not in a request
        return calibration

    def to_json(self) -> dict[str, Any]:
        """Plain data, rounded to what can matter."""
        weights = {term: round(float(weight), 5) for term, weight in zip(self.terms, self.weights, strict=True)}
        return {"features": list(self.features), "intercept": round(self.intercept, 5), "weights": weights}

    def predict(self, features: Floats) -> Floats:
        """The probability of relevance for each row of features (last axis)."""
        logit = expand_features(features, self._plan) @ self.weights + np.float32(self.intercept)
        chance: Floats = 1 / (1 + np.exp(-np.clip(logit, -_CLIP, _CLIP)))
        return chance

    @cached_property
    def _plan(self) -> list["FeatureTerm"]:
        return [parse_term(term, self.features) for term in self.terms]


class FeatureTerm(msgspec.Struct, frozen=True):
    """One input of the regression: a feature, what it exceeds a knot by, or its product with another."""

    feature: int
    knot: float | None = None
    other: int | None = None


def parse_term(term: str, features: Sequence[str]) -> FeatureTerm:
    """The meaning of a term's name; raises KeyError for an unknown feature."""
    places = {name: place for place, name in enumerate(features)}
    if ">" in term:
        name, _, knot = term.partition(">")
        return FeatureTerm(places[name], knot=float(knot))
    name, _, other = term.partition("*")
    return FeatureTerm(places[name], other=places[other] if other else None)


def expand_features(features: Floats, plan: Sequence[FeatureTerm]) -> Floats:
    """The regression's inputs for each row of features (last axis)."""
    return np.stack([_compute_input(features, term) for term in plan], -1)


def _compute_input(features: Floats, term: FeatureTerm) -> Floats:
    values: Floats = features[..., term.feature]
    if term.knot is not None:
        values = np.maximum(values - np.float32(term.knot), 0)
    if term.other is not None:
        values = values * features[..., term.other]
    return values


def refit(prior: Calibration, features: Floats, right: NDArray[np.bool_]) -> Calibration:
    """The coefficients that explain the labels best and stay near the prior, as far as there are labels.

    `features` and `right` have one row per labelled resource.
    """
    inputs = expand_features(features, [parse_term(term, prior.features) for term in prior.terms]).astype(np.float64)
    before = inputs @ prior.weights.astype(np.float64) + prior.intercept
    mean, spread = inputs.mean(0), inputs.std(0)
    # A constant input says nothing about these cases: its coefficient stays.
    scale = np.where(spread > 1e-6, spread, np.inf)
    shift = _fit_around(np.c_[np.ones(len(inputs)), (inputs - mean) / scale], right.astype(np.float64), before)
    slopes = shift[1:] / scale
    weights = (prior.weights + slopes).astype(np.float32)
    return Calibration(prior.features, prior.terms, weights, float(prior.intercept + shift[0] - slopes @ mean))


def _fit_around(inputs: Doubles, right: Doubles, before: Doubles) -> Doubles:
    """What to add to the coefficients that gave the logits `before`: a ridge regression around them."""
    shift = np.zeros(inputs.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(before + inputs @ shift, -_CLIP, _CLIP)))
        slope = inputs.T @ (right - chance) - STIFFNESS * shift
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + STIFFNESS * np.eye(len(shift))
        step = np.linalg.solve(curve, slope)
        shift = shift + step
        if np.abs(step).max() < 1e-6:
            break
    return shift
