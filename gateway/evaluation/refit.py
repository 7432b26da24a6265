"""Refits the calibration on cases, and tells from held-out cases whether that helps."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.errors import ServiceUnavailable
from gateway.evaluation.cases import Case
from gateway.evaluation.figures import Figures, compute_figures
from gateway.evaluation.run import CaseRunner, InjectedResource, Outcome, UnplacedResource
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.vector_index import Floats
from gateway.semantic.search.calibration import Calibration, refit
from gateway.semantic.search.choice import split_by_kind
from gateway.semantic.search.scoring import compute_features, compute_hybrid_scores, select_shortlist
from gateway.semantic.search.sentences import split_query
from gateway.semantic.search.view import IndexView

FEWEST = 20  # cases; fewer would be fitted by chance
FOLDS = 5
LIKELY = 0.5  # the threshold at which before and after are compared


class LabelledCase(msgspec.Struct, frozen=True, eq=False):
    """The resources that a case shortlists, each with its features and whether it is expected."""

    case: Case
    names: tuple[str, ...]
    features: Floats  # a row per name
    right: NDArray[np.bool_]


class RefitResult(msgspec.Struct, frozen=True):
    """A new calibration, and what it and the old one do to cases that they were not fitted on."""

    calibration: Calibration
    before: Figures
    after: Figures
    loss_before: float
    loss_after: float

    @property
    def is_better(self) -> bool:
        return self.loss_after < self.loss_before


def refit_on_cases(prior: Calibration, labelled: Sequence[LabelledCase]) -> RefitResult:
    """Fit on all cases; each fifth is evaluated with a fit on the others. Raises ServiceUnavailable for too few."""
    if len(labelled) < FEWEST:
        raise ServiceUnavailable(
            f"A fit needs at least {FEWEST} cases that shortlist resources; there are {len(labelled)}."
        )
    pairs = [(one, fitted) for fold, fitted in _split_folds(prior, labelled) for one in fold]
    return RefitResult(
        fit_cases(prior, labelled),
        compute_figures([compute_outcome(one, prior) for one in labelled]),
        compute_figures([compute_outcome(one, fitted) for one, fitted in pairs]),
        float(np.mean([compute_loss(one, prior) for one in labelled])),
        float(np.mean([compute_loss(one, fitted) for one, fitted in pairs])),
    )


def fit_cases(prior: Calibration, labelled: Sequence[LabelledCase]) -> Calibration:
    rows = np.concatenate([one.features for one in labelled])
    return refit(prior, rows, np.concatenate([one.right for one in labelled]))


def _split_folds(
    prior: Calibration, labelled: Sequence[LabelledCase]
) -> Iterator[tuple[Sequence[LabelledCase], Calibration]]:
    # Neighbours in a file resemble each other: taking every fifth spreads each kind over all folds.
    for fold in range(FOLDS):
        others = [one for number, one in enumerate(labelled) if number % FOLDS != fold]
        yield labelled[fold::FOLDS], fit_cases(prior, others)


def compute_outcome(one: LabelledCase, calibration: Calibration) -> Outcome:
    """What a calibration alone would inject for a case."""
    scored = list(zip(one.names, calibration.predict(one.features).tolist(), strict=True))
    injected = tuple(InjectedResource(name, score, "semantic") for name, score in scored if score >= LIKELY)
    return Outcome(
        one.case, injected, {name: UnplacedResource(score, None) for name, score in scored if score < LIKELY}
    )


def compute_loss(one: LabelledCase, calibration: Calibration) -> float:
    """The logarithmic loss of a case: how surprising its labels are."""
    chance = np.clip(calibration.predict(one.features).astype(np.float64), 1e-6, 1 - 1e-6)
    return float(-np.log(np.where(one.right, chance, 1 - chance)).sum())


async def label_cases(
    runner: CaseRunner, cases: Sequence[Case], index: PassageIndex, prior: Calibration
) -> list[LabelledCase]:
    """The cases with what the search knows about them; those that shortlist nothing teach nothing."""
    words = IndexWords.build(index)
    found = []
    for case in cases:
        reachable = (await runner.prepare(case)).injection.searchable
        domains = [IndexView.build(words, names) for names in split_by_kind(reachable, words.tools).values()]
        seen = [view for view in domains if len(view.rows)]
        sentences = split_query(case.question, case.earlier[::-1]).sentences
        if sentences and seen:
            vectors = await index.embedder.embed(sentences)
            parts = [_collect_features(view, sentences, vectors, prior) for view in seen]
            names = tuple(name for part, _ in parts for name in part)
            right = np.array([name in case.expect for name in names])
            found.append(LabelledCase(case, names, np.concatenate([rows for _, rows in parts]), right))
    return found


def _collect_features(
    view: IndexView, sentences: Sequence[str], vectors: Floats, prior: Calibration
) -> tuple[tuple[str, ...], Floats]:
    """Each resource with its features by the sentence that speaks for it most, as far as the prior can tell."""
    evidence = view.collect_evidence(sentences, vectors)
    score = compute_hybrid_scores(evidence)
    columns = select_shortlist(score)
    known = compute_features(evidence, score, columns)
    chances = prior.predict(known)
    best: dict[int, tuple[int, int]] = {}
    for place in np.argsort(chances, axis=None):  # ascending: the best sentence comes last and stays
        row, at = np.unravel_index(place, chances.shape)
        best[int(columns[row, at])] = int(row), int(at)
    names = tuple(view.resources[column] for column in best)
    return names, np.stack([known[cell] for cell in best.values()])
