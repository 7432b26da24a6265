"""Questions put to a set: the features of the resources on each shortlist, and which of them are right."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.labelled import Item, LabelledSet, Question
from gateway.semantic.index.lexical import Lexical, terms
from gateway.semantic.index.passages import pieces
from gateway.semantic.model.files import locate
from gateway.semantic.model.onnx_model import OnnxModel
from gateway.semantic.search.scoring import Centres, Evidence, best_per_owner, features, hybrid, shortlist
from gateway.semantic.search.view import evidence_of

Floats = NDArray[np.float32]


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


class Vectors:
    """Texts to vectors, kept in a file so that a second run embeds nothing."""

    def __init__(self, cache: Path) -> None:
        files = locate()
        self._model = OnnxModel.load(files)
        self._path = cache / f"{files.id[:16]}.npz"
        self._known: dict[str, Floats] = {}
        if self._path.exists():
            stored = np.load(self._path)
            self._known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def of(self, texts: Sequence[str]) -> Floats:
        """One row per text, in their order."""
        keys = [hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            self._embed(new)
        return np.stack([self._known[key] for key in keys])

    def _embed(self, new: dict[str, str]) -> None:
        self._known.update({key: self._model.vector(text) for key, text in new.items()})
        self._path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(self._path, keys=np.array([*self._known]), vectors=np.stack([*self._known.values()]))


def passages(item: Item) -> list[str]:
    """As the index makes them: the text in pieces, then the examples."""
    head = ": ".join(part for part in (item.name, item.description) if part)
    return [*pieces(f"{head}\n\n{item.text}".strip()), *item.examples]


def evidence(items: Sequence[Item], questions: Sequence[str], vectors: Vectors) -> Evidence:
    """What the engine would know of each question, all items being visible."""
    texts = [passages(item) for item in items]
    owners = np.repeat(np.arange(len(items)), [len(own) for own in texts])
    matrix, asked = vectors.of([text for own in texts for text in own]), vectors.of(questions)
    examples = np.array([bool(item.examples) for item in items])
    dense = best_per_owner(asked @ matrix.T, owners)
    taught = examples[owners]
    centres = Centres.of(matrix[taught], owners[taught], examples)
    words = Lexical.build([terms("\n".join(own)) for own in texts]).within(np.arange(len(items)))
    return evidence_of(questions, asked, dense, centres, words)


def tabulate(labelled: LabelledSet, questions: Sequence[Question], strangers: Sequence[str], vectors: Vectors) -> Table:
    """The set's own questions and those of other sets, put to all of its items."""
    known = evidence(labelled.items, [*(question.text for question in questions), *strangers], vectors)
    score = hybrid(known)
    columns = shortlist(score)
    answers = [set(question.relevant) for question in questions] + [set[int]()] * len(strangers)
    right = np.array(
        [[place in answer for place in row] for row, answer in zip(columns.tolist(), answers, strict=True)]
    )
    relevant = np.array([len(answer) for answer in answers])
    hits = [int(best) in answer for best, answer in zip(score.argmax(1), answers, strict=True) if answer]
    return Table(
        labelled.name,
        labelled.family,
        features(known, score, columns),
        right,
        relevant,
        np.arange(len(answers)) >= len(questions),
        float(np.mean(hits or [0.0])),
    )


def thinned(labelled: LabelledSet, share: float) -> LabelledSet:
    """The set without some of its items: their questions are near it and yet have no answer."""
    rng = random.Random(labelled.name)
    return _with_items(labelled, sorted(rng.sample(range(len(labelled.items)), int(len(labelled.items) * share))))


def tiny(labelled: LabelledSet, size: int, turn: int) -> LabelledSet:
    """A handful of the items, as most gateways have, with questions about them and about others of the set."""
    rng = random.Random(f"{labelled.name} {size} {turn}")
    kept = sorted(rng.sample(range(len(labelled.items)), size))
    few = _with_items(labelled, kept)
    answered = [question for question in few.questions if question.relevant][:TINY_QUESTIONS]
    others = [question for question in few.questions if not question.relevant]
    asked = [*answered, *rng.sample(others, min(len(others), TINY_QUESTIONS))]
    return replace(few, questions=tuple(asked))


def _with_items(labelled: LabelledSet, kept: Sequence[int]) -> LabelledSet:
    places = {old: new for new, old in enumerate(kept)}
    questions = tuple(
        Question(question.text, tuple(places[place] for place in question.relevant if place in places))
        for question in labelled.questions
    )
    return replace(labelled, items=tuple(labelled.items[place] for place in kept), questions=questions)
