"""Large sets: what is looked up and sampled leads to the same choice as comparing everything."""

import numpy as np
import pytest

from gateway.semantic.index import nearest as module
from gateway.semantic.index.nearest import LARGE, NearestPassages, estimate_cosines, find_nearest
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.passages import Passage
from gateway.semantic.index.vector_index import Floats, take_best_per_owner
from gateway.semantic.model.onnx_model import normalise_vectors
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.scoring import Ranking, rank_resources
from gateway.semantic.search.view import IndexView
from tests.support.search_harness import FakeEmbedder

WORDS = [f"word{n}" for n in range(400)]
SENTENCES = ["word3 word17 word5", "word40 word399", "word1"]


def clustered(count: int, seed: int) -> Floats:
    """Directions that come in families, as those of texts do."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((60, 64))
    return normalise_vectors(
        (centres[rng.integers(0, 60, count)] + 0.9 * rng.standard_normal((count, 64))).astype(np.float32)
    )


@pytest.fixture(scope="module")
def indexed() -> PassageIndex:
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(WORDS, 12)) for _ in range(9000)]
    passages = [Passage(f"c/{n // 3}", text, example=n % 30 == 0) for n, text in enumerate(texts)]
    vectors = {one.key("bag"): row for one, row in zip(passages, clustered(9000, 1).astype(np.float16), strict=True)}
    return PassageIndex.build(1, FakeEmbedder(), passages, vectors)


@pytest.fixture(params=[1.0, 0.5, 0.05], ids=lambda share: f"{share:.0%} visible")
def view(request: pytest.FixtureRequest, indexed: PassageIndex) -> IndexView:
    names = list(indexed.numbers)
    visible = np.random.default_rng(7).choice(len(names), int(len(names) * request.param), replace=False)
    return IndexView.build(IndexWords.build(indexed), [names[n] for n in visible])


@pytest.fixture(params=[11, 12, 13])
def queries(request: pytest.FixtureRequest) -> Floats:
    return clustered(3, request.param)


def rank(view: IndexView, queries: Floats, near: NearestPassages | None = None) -> Ranking:
    return rank_resources(view.collect_evidence(SENTENCES, queries, near), Calibration.load(), 10)


def test_the_same_resources_come_first_with_nearly_the_same_probability(view: IndexView, queries: Floats) -> None:
    assert len(view.rows) < LARGE
    exact = rank(view, queries)
    looked_up = rank(view, queries, find_nearest(view.index.vectors, view.rows, queries))
    assert looked_up.resources[:5].tolist() == exact.resources[:5].tolist()
    assert looked_up.probabilities[:5] == pytest.approx(exact.probabilities[:5], abs=0.03)


def test_what_was_looked_up_or_shares_words_is_exact_and_nothing_else_seems_nearer(
    view: IndexView, queries: Floats
) -> None:
    index = view.index.vectors
    exact = take_best_per_owner(index.compute_scores(queries, view.rows), view.owners)
    near = find_nearest(index, view.rows, queries)
    lexical = np.zeros_like(exact)
    lexical[:, 7] = 1
    dense = estimate_cosines(index, view.rows, view.owners, queries, near, lexical)
    found = np.unique(view.owners[near.places])
    assert np.allclose(dense[:, found], exact[:, found], atol=1e-6)
    assert np.allclose(dense[:, 7], exact[:, 7], atol=1e-6)
    others = np.setdiff1d(np.arange(exact.shape[1]), found)
    assert (dense[:, others] <= near.bounds[:, None] + 1e-6).all()
    assert dense.mean(1) == pytest.approx(exact.mean(1), abs=0.1 * float(exact.std()))
    assert dense.std(1) == pytest.approx(exact.std(1), rel=0.1)


def test_a_spread_that_is_not_that_of_all_would_be_noticed(
    indexed: PassageIndex, queries: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: a single resource stands for all that was not looked up."""
    view = IndexView.build(IndexWords.build(indexed), list(indexed.numbers))
    monkeypatch.setattr(module, "SAMPLE", 1)
    with pytest.raises(AssertionError):
        test_what_was_looked_up_or_shares_words_is_exact_and_nothing_else_seems_nearer(view, queries)
