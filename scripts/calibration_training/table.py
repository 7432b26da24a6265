"""The features of the resources that each question shortlists, and which of them are right."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.lexical import LexicalIndex, extract_terms
from gateway.semantic.index.passages import split_text
from gateway.semantic.index.vector_index import Floats, take_best_per_owner
from gateway.semantic.model.files import locate_model
from gateway.semantic.model.onnx_model import OnnxModel
from gateway.semantic.search.scoring import (
    Evidence,
    ExampleCentres,
    compute_features,
    compute_hybrid_scores,
    select_shortlist,
)
from gateway.semantic.search.view import combine_evidence, match_words
from scripts.calibration_training.labelled import Item, LabelledQuestion, LabelledSet

TINY_QUESTIONS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One row per question."""

    name: str
    family: str
    features: Floats  # question × shortlist × feature
    right: NDArray[np.bool_]  # question × shortlist
    relevant: NDArray[np.intp]  # number of items that answer the question; 0 when its answer is not in the set
    elsewhere: NDArray[np.bool_]  # whether the question belongs to another set altogether
    first: float  # share of the answerable questions whose best hybrid score is right
    weight: float = 1.0  # of the table in the fit
    certain: bool = False  # whether an unanswered question surely has no answer here


class VectorCache:
    """Texts to vectors, kept in a file so that a second run embeds nothing."""

    def __init__(self, cache: Path) -> None:
        files = locate_model()
        self._model = OnnxModel.load(files)
        self._path = cache / f"{files.id[:16]}.npz"
        self._known: dict[str, Floats] = {}
        if self._path.exists():
            stored = np.load(self._path)
            self._known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def embed(self, texts: Sequence[str]) -> Floats:
        """One row per text, in their order."""
        keys = [hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            self._embed(new)
        return np.stack([self._known[key] for key in keys])

    def _embed(self, new: dict[str, str]) -> None:
        self._known.update({key: self._model.embed_text(text) for key, text in new.items()})
        self._path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(self._path, keys=np.array([*self._known]), vectors=np.stack([*self._known.values()]))


def split_item(item: Item) -> list[str]:
    """As the index makes them: the text in pieces, then the examples."""
    head = ": ".join(part for part in (item.name, item.description) if part)
    return [*split_text(f"{head}\n\n{item.text}".strip()), *item.examples]


def collect_evidence(items: Sequence[Item], questions: Sequence[str], vectors: VectorCache) -> Evidence:
    """What a search would know of each question, all items being visible."""
    texts = [split_item(item) for item in items]
    owners = np.repeat(np.arange(len(items)), [len(own) for own in texts])
    matrix, asked = vectors.embed([text for own in texts for text in own]), vectors.embed(questions)
    examples = np.array([bool(item.examples) for item in items])
    dense = take_best_per_owner(asked @ matrix.T, owners)
    taught = examples[owners]
    centres = ExampleCentres.build(matrix[taught], owners[taught], examples)
    words = LexicalIndex.build([extract_terms("\n".join(own)) for own in texts]).restrict(np.arange(len(items)))
    return combine_evidence(questions, asked, dense, centres, match_words(questions, words))


def tabulate(
    labelled: LabelledSet, questions: Sequence[LabelledQuestion], strangers: Sequence[str], vectors: VectorCache
) -> Table:
    """The set's own questions and those of other sets, asked of all its items."""
    known = collect_evidence(labelled.items, [*(question.text for question in questions), *strangers], vectors)
    score = compute_hybrid_scores(known)
    columns = select_shortlist(score)
    answers = [set(question.relevant) for question in questions] + [set[int]()] * len(strangers)
    right = np.array(
        [[place in answer for place in row] for row, answer in zip(columns.tolist(), answers, strict=True)]
    )
    relevant = np.array([len(answer) for answer in answers])
    hits = [int(best) in answer for best, answer in zip(score.argmax(1), answers, strict=True) if answer]
    return Table(
        labelled.name,
        labelled.family,
        compute_features(known, score, columns),
        right,
        relevant,
        np.arange(len(answers)) >= len(questions),
        float(np.mean(hits)) if hits else 0.0,
    )


def thin_out(labelled: LabelledSet, share: float) -> LabelledSet:
    """The set without some of its items: their questions fit the set and yet have no answer."""
    rng = random.Random(labelled.name)
    return _select_items(labelled, sorted(rng.sample(range(len(labelled.items)), int(len(labelled.items) * share))))


def draw_handful(labelled: LabelledSet, size: int, attempt: int) -> LabelledSet:
    """A handful of the items, as most gateways have, with questions about them and about others of the set."""
    rng = random.Random(f"{labelled.name} {size} {attempt}")
    kept = sorted(rng.sample(range(len(labelled.items)), size))
    few = _select_items(labelled, kept)
    answered = [question for question in few.questions if question.relevant][:TINY_QUESTIONS]
    others = [question for question in few.questions if not question.relevant]
    asked = [*answered, *rng.sample(others, min(len(others), TINY_QUESTIONS))]
    return replace(few, questions=tuple(asked))


def _select_items(labelled: LabelledSet, kept: Sequence[int]) -> LabelledSet:
    places = {old: new for new, old in enumerate(kept)}
    questions = tuple(
        LabelledQuestion(question.text, tuple(places[place] for place in question.relevant if place in places))
        for question in labelled.questions
    )
    return replace(labelled, items=tuple(labelled.items[place] for place in kept), questions=questions)
