"""The calibration refitted on cases, and an honest look at whether that helps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway.errors import ServiceUnavailable
from gateway.evaluation.cases import Case
from gateway.evaluation.figures import Figures, figures_of
from gateway.evaluation.run import Injected, Missing, Outcome, Runner
from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.calibration.fit import refit
from gateway.semantic.search.choice import apart
from gateway.semantic.search.scoring import Floats, features, hybrid, shortlist
from gateway.semantic.search.sentences import searched
from gateway.semantic.search.view import IndexView, IndexWords

FEWEST = 20  # cases; fewer say more about themselves than about what will be asked
FOLDS = 5
LIKELY = 0.5  # the threshold at which before and after are compared


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The resources that a case brought near, each with its features and whether it is expected."""

    case: Case
    names: tuple[str, ...]
    features: Floats  # a row per name
    right: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Refitted:
    """A new calibration, and what it and the old one do to cases that they were not fitted on."""

    calibration: Calibration
    before: Figures
    after: Figures
    loss_before: float
    loss_after: float

    @property
    def helps(self) -> bool:
        return self.loss_after < self.loss_before


def refitted(prior: Calibration, judged: Sequence[Judged]) -> Refitted:
    """Fit on all cases; every fifth of them is judged by a fit on the others. Raises Unavailable for too few."""
    if len(judged) < FEWEST:
        raise ServiceUnavailable(
            f"A fit needs at least {FEWEST} cases that bring resources near; there are {len(judged)}."
        )
    pairs = [(one, fitted) for fold, fitted in _folds(prior, judged) for one in fold]
    return Refitted(
        fit_on(prior, judged),
        figures_of([outcome_at(one, prior) for one in judged]),
        figures_of([outcome_at(one, fitted) for one, fitted in pairs]),
        float(np.mean([loss(one, prior) for one in judged])),
        float(np.mean([loss(one, fitted) for one, fitted in pairs])),
    )


def fit_on(prior: Calibration, judged: Sequence[Judged]) -> Calibration:
    rows = np.concatenate([one.features for one in judged])
    return refit(prior, rows, np.concatenate([one.right for one in judged]))


def _folds(prior: Calibration, judged: Sequence[Judged]) -> Iterator[tuple[Sequence[Judged], Calibration]]:
    # Neighbours in a file resemble each other: dealing them out like cards spreads every kind over all folds.
    for fold in range(FOLDS):
        others = [one for number, one in enumerate(judged) if number % FOLDS != fold]
        yield judged[fold::FOLDS], fit_on(prior, others)


def outcome_at(one: Judged, calibration: Calibration) -> Outcome:
    """What a calibration alone would inject for a case."""
    scored = list(zip(one.names, calibration.probability(one.features).tolist(), strict=True))
    injected = tuple(Injected(name, score, "semantic") for name, score in scored if score >= LIKELY)
    return Outcome(one.case, injected, {name: Missing(score, None) for name, score in scored if score < LIKELY})


def loss(one: Judged, calibration: Calibration) -> float:
    """The logarithmic loss of a case: how surprising its labels are."""
    chance = np.clip(calibration.probability(one.features).astype(np.float64), 1e-6, 1 - 1e-6)
    return float(-np.log(np.where(one.right, chance, 1 - chance)).sum())


async def judge(runner: Runner, cases: Sequence[Case], indexed: PassageIndex, prior: Calibration) -> list[Judged]:
    """The cases with what the search knows about them; those that bring nothing near teach nothing."""
    words = IndexWords.of(indexed)
    found = []
    for case in cases:
        reachable = (await runner.prepare(case)).injection.findable
        domains = [IndexView.build(indexed, names, words) for names in apart(reachable, words.tools).values()]
        seen = [view for view in domains if len(view.rows)]
        sentences = searched(case.question, case.earlier[::-1])
        if sentences and seen:
            vectors = await indexed.embedder.embed(sentences)
            parts = [_known(view, sentences, vectors, prior) for view in seen]
            names = tuple(name for part, _ in parts for name in part)
            right = np.array([name in case.expect for name in names])
            found.append(Judged(case, names, np.concatenate([rows for _, rows in parts]), right))
    return found


def _known(
    view: IndexView, sentences: Sequence[str], vectors: Floats, prior: Calibration
) -> tuple[tuple[str, ...], Floats]:
    """Each resource with its features by the sentence that speaks for it most, as far as the prior can tell."""
    evidence = view.evidence(sentences, vectors)
    score = hybrid(evidence)
    columns = shortlist(score)
    known = features(evidence, score, columns)
    chances = prior.probability(known)
    best: dict[int, tuple[int, int]] = {}
    for place in np.argsort(chances, axis=None):  # ascending: the best sentence comes last and stays
        row, at = np.unravel_index(place, chances.shape)
        best[int(columns[row, at])] = int(row), int(at)
    names = tuple(view.resources[column] for column in best)
    return names, np.stack([known[cell] for cell in best.values()])
