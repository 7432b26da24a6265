"""Logistic regression by Newton's method, and what it does to a set that it has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.search.calibration import Calibration, expand_features, parse_term
from gateway.semantic.search.scoring import FEATURES, reorder_probabilities
from scripts.calibration_training.table import Table

Doubles = NDArray[np.float64]

# Bends where the meaning of a value changes; products for what depends on the language and on examples.
TERMS = (
    *FEATURES,
    *(f"dense>{knot}" for knot in (0.35, 0.55)),
    *(f"{name}>{knot}" for name in ("lead", "dense_lead") for knot in (-0.1, 0.0, 0.1)),
    *(f"coverage>{knot}" for knot in (0.3, 0.6)),
    *(f"matched>{knot}" for knot in (0.15, 0.3)),
    *(f"lexical_lead>{knot}" for knot in (-0.2, 0.0, 0.3)),
    "dense_z>3",
    "lexical_z>3",
    "central>0.5",
    *(f"{name}*foreign" for name in ("dense", "dense_z", "lead", "coverage", "matched", "lexical_z")),
    *(f"{name}*examples" for name in ("dense", "central", "focused", "focused_lead", "lead")),
)
PENALTY = 3.0
STEPS = 25
UNANSWERED = 0.1  # weight of a question near the set whose answer is not in it: labels there are doubtful
# Added to the logit: the weight of strangers and the caution of the penalty make .5 too strict. So much puts it where
# sets that a fit has not seen have a mean precision of .84 and a recall of .64.
LEAN = 0.3
ELSEWHERE = 3.0  # weight of a question from elsewhere: to inject anything there is the worst fault


@dataclass(frozen=True, slots=True)
class SetOutcome:
    """What a threshold does to one set."""

    first: float  # right at rank 1
    precision: float
    recall: float
    false_injections: float  # share of the questions from elsewhere that get anything


def fit(tables: Sequence[Table]) -> Calibration:
    """Coefficients for all tables, every one weighing the same."""
    plan = [parse_term(term, FEATURES) for term in TERMS]
    inputs = np.concatenate([expand_features(table.features, plan).reshape(-1, len(TERMS)) for table in tables]).astype(
        np.float64
    )
    right = np.concatenate([table.right.ravel() for table in tables]).astype(np.float64)
    weights = np.concatenate([_compute_weights(table) for table in tables])
    mean, scale = inputs.mean(0), np.maximum(inputs.std(0), 1e-9)
    solved = _solve_newton(np.c_[np.ones(len(inputs)), (inputs - mean) / scale], right, weights)
    slopes = solved[1:] / scale
    return Calibration(FEATURES, TERMS, slopes.astype(np.float32), float(solved[0] - slopes @ mean) + LEAN)


def compute_outcome(table: Table, calibration: Calibration, threshold: float) -> SetOutcome:
    """How the calibration does on a table."""
    chances = reorder_probabilities(calibration.predict(table.features), table.features[..., FEATURES.index("lead")])
    picked = chances >= threshold
    answered = table.relevant > 0
    hits = (picked & table.right).sum(1)
    best = table.right[np.arange(len(chances)), chances.argmax(1)]
    return SetOutcome(
        float(best[answered].mean()),
        float(hits[answered].sum() / max(1, picked[answered].sum())),
        float((hits[answered] / table.relevant[answered]).mean()),
        float(picked[table.elsewhere].any(1).mean()),
    )


def _compute_weights(table: Table) -> Doubles:
    near = (table.relevant == 0) & ~table.elsewhere
    unanswered = 1.0 if table.certain else UNANSWERED
    by_question = np.select([near, table.elsewhere], [unanswered, ELSEWHERE], 1.0) * 1000 / len(table.relevant)
    return np.repeat(table.weight * by_question, table.right.shape[1])


def _solve_newton(inputs: Doubles, right: Doubles, weights: Doubles) -> Doubles:
    solved = np.zeros(inputs.shape[1])
    penalty = np.full(inputs.shape[1], PENALTY)
    penalty[0] = 0.0
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ solved, -30, 30)))
        slope = inputs.T @ (weights * (right - chance)) - penalty * solved
        curve = (inputs * (weights * chance * (1 - chance))[:, None]).T @ inputs + np.diag(penalty + 1e-6)
        step = np.linalg.solve(curve, slope)
        solved = solved + step
        if np.abs(step).max() < 1e-6:
            break
    return solved
