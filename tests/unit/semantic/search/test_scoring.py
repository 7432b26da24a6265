"""From similarities to a ranking by calibrated probability."""

import numpy as np
import pytest
from msgspec.structs import replace

from gateway.semantic.index.vector_index import take_best_per_owner
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.scoring import (
    FEATURES,
    FOREIGN_LATIN,
    SHORTLIST,
    Evidence,
    ExampleCentres,
    compute_centroids,
    compute_features,
    compute_hybrid_scores,
    measure_foreignness,
    rank_resources,
    reorder_probabilities,
    select_shortlist,
)

BY_DENSE = Calibration(FEATURES, ("dense",), np.array([10], np.float32), -5.0)


def evidence(dense: list[list[float]], lexical: list[list[float]] | None = None, foreign: float = 0.0) -> Evidence:
    cosines = np.array(dense, np.float32).reshape(len(dense), -1)
    rows = len(cosines)
    return Evidence(
        dense=cosines,
        central=cosines,
        focused=cosines,
        lexical=np.zeros_like(cosines) if lexical is None else np.array(lexical, np.float32),
        coverage=np.zeros_like(cosines),
        ceilings=np.full(rows, 10, np.float32),
        query_terms=np.full(rows, 6),
        foreign=np.full(rows, foreign, np.float32),
        examples=np.zeros(cosines.shape[1], np.bool_),
    )


def feature(known: Evidence, name: str) -> list[list[float]]:
    columns = np.broadcast_to(np.arange(known.dense.shape[1]), known.dense.shape)
    values: list[list[float]] = compute_features(known, compute_hybrid_scores(known), columns)[
        ..., FEATURES.index(name)
    ].tolist()
    return values


def test_the_best_passage_speaks_for_its_resource() -> None:
    similarities = np.array([[0.1, 0.9, 0.3], [0.5, 0.2, 0.4]], np.float32)
    assert take_best_per_owner(similarities, np.array([0, 0, 1])).tolist() == [
        pytest.approx([0.9, 0.3]),
        pytest.approx([0.5, 0.4]),
    ]


def test_a_centroid_points_where_its_vectors_point_together() -> None:
    vectors = np.array([[1, 0], [0, 1], [0, 1]], np.float32)
    assert compute_centroids(vectors, np.array([0, 0, 1])).tolist() == [
        pytest.approx([0.7071, 0.7071], abs=1e-4),
        [0, 1],
    ]


def test_words_in_common_decide_between_similar_meanings() -> None:
    assert compute_hybrid_scores(evidence([[0.50, 0.45]], [[0, 3]])).argmax() == 1


def test_meaning_outweighs_words_in_english_and_not_in_another_script() -> None:
    known = evidence([[0.7, 0.3]], [[0, 3]])
    assert compute_hybrid_scores(known).argmax() == 0
    assert compute_hybrid_scores(replace(known, foreign=np.array([1.0], np.float32))).argmax() == 1


def test_the_centroid_leads_where_there_are_examples() -> None:
    known = replace(evidence([[0.60, 0.62]]), central=np.array([[0.60, 0.40]], np.float32))
    assert compute_hybrid_scores(known).argmax() == 0


def test_a_lead_is_measured_against_the_best_other_resource() -> None:
    assert feature(evidence([[0.8, 0.5, 0.1]]), "dense_lead") == [pytest.approx([0.3, -0.3, -0.7])]


def test_two_equals_have_no_lead() -> None:
    assert feature(evidence([[0.8, 0.8, 0.1]]), "dense_lead") == [pytest.approx([0, 0, -0.7])]


def test_a_single_resource_leads_by_all_it_has() -> None:
    assert feature(evidence([[0.4]]), "dense_lead") == [pytest.approx([0.4])]


def test_lexical_features_are_relative_to_the_best_and_to_the_ceiling() -> None:
    known = evidence([[0.1, 0.1]], [[2, 4]])
    assert feature(known, "lexical") == [pytest.approx([0.5, 1])]
    assert feature(known, "matched") == [pytest.approx([0.2, 0.4])]


def test_a_query_that_matches_no_word_has_finite_features() -> None:
    known = evidence([[0.0, 0.0]])
    known = replace(known, ceilings=np.zeros(1, np.float32))
    assert np.isfinite([feature(known, name) for name in FEATURES]).all()


def test_the_shortlist_holds_the_best_and_no_more() -> None:
    score = np.arange(100, dtype=np.float32)[None]
    assert sorted(select_shortlist(score)[0].tolist()) == list(range(100 - SHORTLIST, 100))


def test_each_resource_is_ranked_by_the_sentence_that_speaks_for_it_most() -> None:
    ranking = rank_resources(evidence([[0.9, 0.1, 0.3], [0.2, 0.6, 0.1]]), BY_DENSE)
    assert ranking.resources.tolist() == [0, 1, 2]
    assert ranking.sentences.tolist() == [0, 1, 0]
    # .731 by the second sentence alone, at half the odds since it is only a part of the question.
    assert ranking.probabilities.tolist() == pytest.approx([0.982, 0.576, 0.119], abs=1e-3)


def test_nothing_to_rank_is_an_empty_ranking() -> None:
    assert rank_resources(evidence([[]]), BY_DENSE).resources.tolist() == []


def test_the_order_does_not_depend_on_where_a_resource_stands() -> None:
    cosines = np.random.default_rng(1).uniform(0, 1, (2, 60)).astype(np.float32)
    turned = rank_resources(evidence(cosines[:, ::-1].tolist()), BY_DENSE)
    straight = rank_resources(evidence(cosines.tolist()), BY_DENSE)
    assert (59 - turned.resources).tolist() == straight.resources.tolist()


def test_the_highest_probability_goes_to_the_highest_score() -> None:
    likely = np.array([[0.2, 0.9, 0.5]], np.float32)
    assert reorder_probabilities(likely, np.array([[3, 2, 1]], np.float32)).tolist() == [pytest.approx([0.9, 0.5, 0.2])]


def test_directions_in_which_examples_differ_anyway_count_less() -> None:
    # Both resources vary along the third axis; only the first axis tells them apart.
    vectors = np.array([[1, 0, 1], [1, 0, -1], [-1, 0, 1], [-1, 0, -1]], np.float32) / np.float32(2**0.5)
    owners = np.array([0, 0, 1, 1], np.intp)
    examples = np.ones(2, np.bool_)
    query = np.array([[0.3, 0.0, 0.95]], np.float32)
    dense = take_best_per_owner(query @ vectors.T, owners)
    focused = ExampleCentres.build(vectors, owners, examples).compare(query, dense).focused
    assert focused[0, 0] - focused[0, 1] > dense[0, 0] - dense[0, 1]


def test_a_resource_without_examples_is_compared_by_its_passages_alone() -> None:
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    centres = ExampleCentres.build(vectors[:1], np.array([0], np.intp), np.array([True, False]))
    dense = np.array([[0.9, 0.2]], np.float32)
    cosines = centres.compare(np.array([[1, 0]], np.float32), dense)
    assert cosines.central[0, 1] == cosines.focused[0, 1] == dense[0, 1]


def test_only_the_best_of_each_sentence_get_a_probability() -> None:
    known = evidence([[0.9, 0.8, 0.7, 0.1]])
    assert rank_resources(known, BY_DENSE, top_k=2).resources.tolist() == [0, 1]


def test_vectors_that_are_too_wide_are_compared_without_a_transform() -> None:
    vectors = np.eye(2, 1200, dtype=np.float32)
    centres = ExampleCentres.build(vectors, np.array([0, 1], np.intp), np.ones(2, np.bool_))
    cosines = centres.compare(vectors[:1], np.zeros((1, 2), np.float32))
    assert centres.transform is None
    assert cosines.focused.tolist() == cosines.central.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    "text", ["How do I get a refund?", "refund policy", "42", "", "def get_user(name): return name"]
)
def test_english_and_what_gives_no_sign_are_at_home(text: str) -> None:
    assert measure_foreignness(text) == 0


@pytest.mark.parametrize(
    "text",
    ["Wie bekomme ich mein Geld von der Bank zurück?", "¿Cómo pido la devolución de una compra?", "Où est la gare ?"],
)
def test_another_latin_language_is_half_foreign(text: str) -> None:
    assert measure_foreignness(text) == FOREIGN_LATIN


def test_one_foreign_name_does_not_make_an_english_question_foreign() -> None:
    assert measure_foreignness("What is the way to the Café de Paris in this town?") == 0


@pytest.mark.parametrize("text", ["如何申请退款？", "Как вернуть деньги?", "返金するには？"])
def test_another_script_is_foreign_through_and_through(text: str) -> None:
    assert measure_foreignness(text) == 1


def test_mixed_scripts_lie_between() -> None:
    assert 0 < measure_foreignness("GPU 训练") < 1
