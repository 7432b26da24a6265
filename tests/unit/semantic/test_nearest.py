"""Large sets: what is looked up and sampled leads to the same choice as comparing everything."""

import numpy as np
import pytest
from searching import Bag

from gateway.semantic.index import nearest as module
from gateway.semantic.index.nearest import dense_of, nearest
from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.index.passages import Passage
from gateway.semantic.model.onnx_model import normalised
from gateway.semantic.search import view as view_module
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.scoring import Floats, Ranking, best_per_owner, rank
from gateway.semantic.search.view import IndexView, IndexWords

WORDS = [f"word{n}" for n in range(400)]
SENTENCES = ["word3 word17 word5", "word40 word399", "word1"]


def clustered(count: int, seed: int) -> Floats:
    """Directions that come in families, as those of texts do."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((60, 64))
    return normalised((centres[rng.integers(0, 60, count)] + 0.9 * rng.standard_normal((count, 64))).astype(np.float32))


@pytest.fixture(scope="module")
def indexed() -> PassageIndex:
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(WORDS, 12)) for _ in range(9000)]
    passages = [Passage(f"c/{n // 3}", text, example=n % 30 == 0) for n, text in enumerate(texts)]
    vectors = {one.key("bag"): row for one, row in zip(passages, clustered(9000, 1).astype(np.float16), strict=True)}
    return PassageIndex.build(1, Bag(), passages, vectors)


@pytest.fixture(params=[1.0, 0.5, 0.05], ids=lambda share: f"{share:.0%} visible")
def view(request: pytest.FixtureRequest, indexed: PassageIndex) -> IndexView:
    names = list(indexed.numbers)
    visible = np.random.default_rng(7).choice(len(names), int(len(names) * request.param), replace=False)
    return IndexView.build(indexed, [names[n] for n in visible], IndexWords.of(indexed))


@pytest.fixture(params=[11, 12, 13])
def queries(request: pytest.FixtureRequest) -> Floats:
    return clustered(3, request.param)


def ranked(view: IndexView, queries: Floats, large: int, monkeypatch: pytest.MonkeyPatch) -> Ranking:
    monkeypatch.setattr(view_module, "LARGE", large)
    return rank(view.evidence(SENTENCES, queries), Calibration.load(), 10)


def test_the_same_resources_come_first_with_nearly_the_same_probability(
    view: IndexView, queries: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, looked_up = (ranked(view, queries, large, monkeypatch) for large in (10**6, 0))
    assert looked_up.resources[:5].tolist() == exact.resources[:5].tolist()
    assert looked_up.probabilities[:5] == pytest.approx(exact.probabilities[:5], abs=0.03)


def test_what_was_looked_up_or_shares_words_is_exact_and_nothing_else_seems_nearer(
    view: IndexView, queries: Floats
) -> None:
    index = view.indexed.index
    exact = best_per_owner(index.scores_for(queries, view.rows), view.owners)
    near = nearest(index, view.rows, queries)
    lexical = np.zeros_like(exact)
    lexical[:, 7] = 1
    dense = dense_of(index, view.rows, view.owners, queries, near, lexical)
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
    view = IndexView.build(indexed, list(indexed.numbers), IndexWords.of(indexed))
    monkeypatch.setattr(module, "SAMPLE", 1)
    with pytest.raises(AssertionError):
        test_what_was_looked_up_or_shares_words_is_exact_and_nothing_else_seems_nearer(view, queries)
