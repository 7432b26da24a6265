"""From features to the probability that a resource is relevant; scripts/train-calibration fits the coefficients."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.model.embedder import SemanticError

Floats = NDArray[np.float32]

LATEST = "v2.json"
_CLIP = 30.0  # beyond it exp overflows in float32 and nothing changes any more


@dataclass(frozen=True, eq=False)
class Calibration:
    """A logistic regression over features, bends ("dense>0.35") and products ("dense*foreign") of features."""

    features: tuple[str, ...]
    terms: tuple[str, ...]
    weights: Floats
    intercept: float

    @classmethod
    def load(cls, name: str = LATEST) -> Self:
        """The coefficients of a version that comes along."""
        text = resources.files(__package__).joinpath(name).read_text("utf-8")
        return cls.from_json(json.loads(text))

    @classmethod
    def read(cls, path: Path, features: Sequence[str]) -> Self:
        """The coefficients of a file that was fitted here; raises SemanticError unless they are for these features."""
        try:
            calibration = cls.from_json(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SemanticError(f"The calibration {path} cannot be used: {error}.") from error
        if calibration.features != tuple(features):
            raise SemanticError(f"The calibration {path} is of another version: fit it anew with `gateway eval --fit`.")
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

    def probability(self, features: Floats) -> Floats:
        """The probability of relevance for each row of features (last axis)."""
        logit = expand(features, self._plan) @ self.weights + np.float32(self.intercept)
        chance: Floats = 1 / (1 + np.exp(-np.clip(logit, -_CLIP, _CLIP)))
        return chance

    @cached_property
    def _plan(self) -> list["FeatureTerm"]:
        return [parse_term(term, self.features) for term in self.terms]


@dataclass(frozen=True, slots=True)
class FeatureTerm:
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


def expand(features: Floats, plan: Sequence[FeatureTerm]) -> Floats:
    """The regression's inputs for each row of features (last axis)."""
    return np.stack([_input(features, term) for term in plan], -1)


def _input(features: Floats, term: FeatureTerm) -> Floats:
    values: Floats = features[..., term.feature]
    if term.knot is not None:
        values = np.maximum(values - np.float32(term.knot), 0)
    if term.other is not None:
        values = values * features[..., term.other]
    return values
