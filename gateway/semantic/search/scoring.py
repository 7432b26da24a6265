"""From cosines and words to a ranking: hybrid score, features, calibrated probability. Pure functions."""

import re
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.vector_index import Floats, Rows
from gateway.semantic.search.calibration import Calibration

SHORTLIST = 20  # resources per sentence that are worth a probability; a relevant one is hardly ever below
CENTRAL, FOCUSED = 0.25, 0.5  # shares in the dense part, where there are examples
WIDEST = 1024  # dimensions; beyond that the transform of each view would take seconds and megabytes
SHRINKAGE = 0.5  # of the spread of examples towards the same in every direction: there are only a few of each
LEXICAL = 0.2
LEXICAL_EXAMPLES = 0.08  # where there are examples, cosines are more reliable
LEXICAL_FOREIGN = 1.0  # added per unit of foreignness
LEXICAL_SCRIPT = 5.0  # for other scripts the model's cosine is little more than noise
PART = 0.5  # factor on the odds of a match by one sentence of several; the whole question comes first
FOREIGN_LATIN = 0.5  # foreignness of another Latin language
SCRIPT = 0.6  # foreignness from which a text counts as another script

_LATIN_END = 0x024F  # the last code point of Latin with its extensions
_ACCENTED = re.compile("[\u00df-\u024f]")
# The commonest words identify a language even in a short question.
_ENGLISH = re.compile(
    r"\b(?:an?|and|are|be|can|do|for|from|have|how|i|in|is|it|me|my|of|on|that|the|this|to|what|with|you)\b"
)
_OTHERS = re.compile(
    r"\b(?:auf|das|den|der|des|die|eine?|für|im|ist|mit|nicht|sich|und|von|zu|con|del?|el|en|es|las?|los|para|por|que|"
    r"se|una?|che|di|non|per|sono|dans|du|est|et|il|les?|pour|sur|une|da|em|na|os?|uma?|het|van|een)\b"
)

FEATURES = (
    "dense",  # cosine of the best passage or example
    "central",  # cosine of the centroid where there are examples, else the same
    "focused",  # the same where what examples differ in anyway counts less
    "focused_lead",
    "dense_lead",  # dense minus the best other's
    "lead",  # hybrid score minus the best other's
    "dense_z",  # standard deviations above the mean of all resources
    "lexical",  # BM25 over the best one's
    "matched",  # BM25 over what the query's terms alone would score
    "coverage",  # share of the query's terms that occur, weighted by rarity
    "lexical_lead",
    "lexical_z",
    "query_terms",  # log
    "resources",  # log
    "foreign",
    "examples",  # whether the resource has any
)


class Evidence(msgspec.Struct, frozen=True, eq=False):
    """What is known of each sentence (row) and each visible resource (column)."""

    dense: Floats  # best cosine over the resource's passages and examples
    central: Floats  # cosine to the centroid of a resource with examples; equal to `dense` elsewhere
    focused: Floats  # the same where directions in which examples differ anyway count less
    lexical: Floats  # BM25
    coverage: Floats
    ceilings: Floats  # by sentence, of `lexical`
    query_terms: Rows  # by sentence: number of terms
    foreign: Floats  # by sentence
    examples: NDArray[np.bool_]  # by resource


class Ranking(msgspec.Struct, frozen=True, eq=False):
    """The visible resources of one question, best first."""

    resources: Rows
    probabilities: Floats
    sentences: Rows  # by resource: the sentence that speaks for it most


def compute_centroids(vectors: Floats, owners: Rows) -> Floats:
    """The mean direction of the vectors of each owner, one row of length 1 per owner."""
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    sums = np.add.reduceat(vectors, starts, axis=0)
    return normalise_rows(sums)


def compute_focus(vectors: Floats, owners: Rows) -> Floats:
    """The transform under which the vectors of one owner spread alike in every direction (as in a linear discriminant).

    How five questions about one subject differ says nothing about the subject of a sixth.
    """
    if not len(owners):
        return np.eye(vectors.shape[1], dtype=np.float32)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    means = np.add.reduceat(vectors, starts, axis=0) / np.bincount(owners)[:, None]
    deviations = (vectors - means[owners]).astype(np.float64)
    spread = deviations.T @ deviations / len(deviations)
    dimensions = spread.shape[0]
    alike = max(float(np.trace(spread)) / dimensions, 1e-9)
    shrunk = (1 - SHRINKAGE) * spread + SHRINKAGE * alike * np.eye(dimensions)
    transform: Floats = np.linalg.cholesky(np.linalg.inv(shrunk)).astype(np.float32)
    return transform


class CentreCosines(msgspec.Struct, frozen=True, eq=False):
    """Cosines of sentences (down) to the centres of resources (across)."""

    central: Floats
    focused: Floats


class ExampleCentres(msgspec.Struct, frozen=True, eq=False):
    """The centres of the resources that have examples."""

    examples: NDArray[np.bool_]  # by resource
    plain: Floats  # by resource with examples: where all its vectors point together
    transform: Floats | None  # None: there are no examples, or the vectors are too wide for one
    focused: Floats  # the same after the transform

    @classmethod
    def build(cls, vectors: Floats, owners: Rows, examples: NDArray[np.bool_]) -> Self:
        """From the vectors of the resources that have examples, and of those only."""
        plain = compute_centroids(vectors, owners)
        if not len(owners) or vectors.shape[1] > WIDEST:
            return cls(examples, plain, None, plain)
        transform = compute_focus(vectors, np.unique(owners, return_inverse=True)[1])
        return cls(examples, plain, transform, normalise_rows(plain @ transform))

    def compare(self, queries: Floats, dense: Floats) -> CentreCosines:
        """The cosines to the centres; `dense` where a resource has no examples."""
        central, focused = dense.copy(), dense.copy()
        if self.examples.any():
            central[:, self.examples] = queries @ self.plain.T
            transformed = queries if self.transform is None else normalise_rows(queries @ self.transform)
            focused[:, self.examples] = transformed @ self.focused.T
        return CentreCosines(central, focused)


def normalise_rows(vectors: Floats) -> Floats:
    """Each row scaled to length 1."""
    normal: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return normal


def compute_hybrid_scores(evidence: Evidence) -> Floats:
    """The weighted sum that orders resources, the lexical part leading where the model is weak."""
    foreign = evidence.foreign[:, None]
    plain = np.where(evidence.examples, LEXICAL_EXAMPLES, LEXICAL)[None]
    weight = np.where(foreign >= SCRIPT, LEXICAL_SCRIPT, plain + LEXICAL_FOREIGN * foreign)
    dense = (1 - CENTRAL - FOCUSED) * evidence.dense + CENTRAL * evidence.central + FOCUSED * evidence.focused
    score: Floats = (dense + weight * _divide_by_best(evidence.lexical)).astype(np.float32)
    return score


def compute_features(evidence: Evidence, score: Floats, columns: Rows) -> Floats:
    """FEATURES of the resources in `columns` (sentence × shortlist), last axis by feature."""
    sentences, resources = evidence.dense.shape
    best = _divide_by_best(evidence.lexical)
    by_cell = (
        evidence.dense,
        evidence.central,
        evidence.focused,
        _compute_leads(evidence.focused),
        _compute_leads(evidence.dense),
        _compute_leads(score),
        _compute_deviations(evidence.dense),
        best,
        evidence.lexical / np.maximum(evidence.ceilings, 1e-9)[:, None],
        evidence.coverage,
        _compute_leads(best),
        _compute_deviations(evidence.lexical),
        np.log1p(evidence.query_terms)[:, None],
        np.log(resources),
        evidence.foreign[:, None],
        evidence.examples[None],
    )
    shape = (sentences, resources)
    cells = [np.take_along_axis(np.broadcast_to(values, shape), columns, 1) for values in by_cell]
    return np.stack(cells, -1).astype(np.float32)


def select_shortlist(score: Floats, size: int = SHORTLIST) -> Rows:
    """The columns of each row's best resources, in no order."""
    resources = score.shape[1]
    if resources <= size:
        return np.broadcast_to(np.arange(resources), score.shape)
    return np.argpartition(-score, size - 1, axis=1)[:, :size]


def rank_resources(evidence: Evidence, calibration: Calibration, top_k: int = SHORTLIST) -> Ranking:
    """Resources by probability, each by the sentence that speaks for it most; only the `top_k` of each sentence."""
    if not evidence.dense.size:
        return Ranking(np.empty(0, np.intp), np.empty(0, np.float32), np.empty(0, np.intp))
    score = compute_hybrid_scores(evidence)
    columns = select_shortlist(score, top_k)
    likely = calibration.predict(compute_features(evidence, score, columns))
    likely[1:] = discount_partial_matches(likely[1:])
    chances = np.zeros(score.shape, np.float32)
    np.put_along_axis(chances, columns, reorder_probabilities(likely, np.take_along_axis(score, columns, 1)), 1)
    leading = chances.argmax(0)
    best = chances.max(0)
    # The hybrid score decides between equals, so that the order stays the same from run to run.
    order = np.lexsort((-score.max(0), -best))
    order = order[best[order] > 0]
    return Ranking(order, best[order], leading[order])


def discount_partial_matches(chances: Floats) -> Floats:
    """Lower probabilities for sentences that are only a part of the question: the best of several tries is too high."""
    odds = chances / np.maximum(1 - chances, 1e-7) * PART
    lower: Floats = (odds / (1 + odds)).astype(np.float32)
    return lower


def reorder_probabilities(likely: Floats, score: Floats) -> Floats:
    """The same probabilities, the highest for the highest score: they say how sure it is, the score which it is."""
    reordered = np.empty_like(likely)
    np.put_along_axis(reordered, np.argsort(-score, axis=1, kind="stable"), -np.sort(-likely, axis=1), 1)
    return reordered


def _divide_by_best(values: Floats) -> Floats:
    shares: Floats = values / np.maximum(values.max(1, keepdims=True), 1e-9)
    return shares


def _compute_leads(values: Floats) -> Floats:
    """Each value minus the best other one of its row; the value itself when it is alone."""
    if values.shape[1] == 1:
        return values
    second, first = np.partition(values, -2, axis=1)[:, -2:].T[:, :, None]
    leads: Floats = np.where(values >= first, values - second, values - first)
    return leads


def _compute_deviations(values: Floats) -> Floats:
    spread = np.maximum(values.std(1, keepdims=True), 1e-6)
    deviations: Floats = (values - values.mean(1, keepdims=True)) / spread
    return deviations


def measure_foreignness(text: str) -> float:
    """How foreign a text is to an embedder that was trained on English: there the lexical score leads.

    0 for English or where there is no sign, .5 for another Latin language, up to 1 for other scripts.
    """
    letters = [letter for letter in text if letter.isalpha()]
    if not letters:
        return 0.0
    foreign = sum(ord(letter) > _LATIN_END for letter in letters) / len(letters)
    return max(foreign, FOREIGN_LATIN if _is_other_language(text) else 0.0)


def _is_other_language(text: str) -> bool:
    words = text.casefold()
    return len(_OTHERS.findall(words)) + bool(_ACCENTED.search(words)) > len(_ENGLISH.findall(words))
