"""Terms of any script, and BM25 that sees only what its caller may see."""

import numpy as np
import pytest

from gateway.semantic.index.lexical import K1, PAIR, B, LexicalIndex, LexicalMatch, WordPairs, extract_terms, stem


def match_texts(texts: list[str], query: str, rows: list[int] | None = None) -> LexicalMatch:
    lexical = LexicalIndex.build([extract_terms(text) for text in texts])
    visible = np.arange(len(texts)) if rows is None else np.array(rows, np.intp)
    return lexical.restrict(visible).match(extract_terms(query))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserName", ["get", "user", "name"]),
        ("card_payment.retry", ["card", "payment", "retr"]),
        ("HTTPServer2", ["http", "server2"]),
        ("退款政策", ["退款", "款政", "政策"]),
        ("款", ["款"]),
        ("用GPU训练", ["用", "gpu", "训练"]),
        ("ＡＰＩ", ["api"]),
        ("?! …", []),
    ],
)
def test_text_becomes_terms(text: str, expected: list[str]) -> None:
    assert extract_terms(text) == expected


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        (("payment", "payments"), "payment"),
        (("refunds", "refunded", "refunding", "refund"), "refund"),
        (("stopping", "stopped"), "stop"),
        (("canción", "cancion"), "canc"),
        (("karten", "karte"), "kart"),
    ],
)
def test_forms_of_a_word_meet(forms: tuple[str, ...], expected: str) -> None:
    assert {stem(form) for form in forms} == {expected}


@pytest.mark.parametrize("word", ["card", "2024", "b2b", "is"])
def test_short_words_and_numbers_keep_their_shape(word: str) -> None:
    assert stem(word) == word


def test_a_rare_term_counts_more_than_a_common_one() -> None:
    match = match_texts(["the invoice", "the card", "the card"], "invoice card")
    assert match.score[0] > match.score[1] == pytest.approx(match.score[2])


def test_scores_are_those_of_bm25() -> None:
    match = match_texts(["fox fox dog", "dog", "cow"], "fox")
    rarity = np.log1p((3 - 1 + 0.5) / (1 + 0.5))
    damping = K1 * (1 - B + B * 3 / (5 / 3))
    assert match.score[0] == pytest.approx(rarity * 2 * (K1 + 1) / (2 + damping), rel=1e-5)
    assert match.score[1:].tolist() == [0, 0]
    assert match.ceiling == pytest.approx(rarity * (K1 + 1), rel=1e-5)


def test_coverage_is_the_share_of_the_query_that_occurs() -> None:
    match = match_texts(["alpha beta", "alpha", "gamma"], "alpha beta")
    assert match.coverage[0] == pytest.approx(1)
    assert 0 < match.coverage[1] < 0.5
    assert match.coverage[2] == 0


def test_unknown_words_lower_the_coverage() -> None:
    assert match_texts(["alpha", "beta"], "alpha zeta").coverage[0] < 0.5


def test_what_is_hidden_changes_nothing() -> None:
    alone = match_texts(["red fox", "blue cow"], "red cow")
    among = match_texts(["red red red", "red fox", "cow cow", "blue cow"], "red cow", rows=[1, 3])
    assert among.score.tolist() == pytest.approx(alone.score.tolist())
    assert among.coverage.tolist() == pytest.approx(alone.coverage.tolist())
    assert among.ceiling == pytest.approx(alone.ceiling)


def test_scores_come_in_the_order_of_the_rows() -> None:
    texts = ["cow", "fox", "dog"]
    assert match_texts(texts, "fox", rows=[2, 1]).score.argmax() == 1
    assert match_texts(texts, "fox", rows=[1, 2]).score.argmax() == 0


@pytest.mark.parametrize(("texts", "query"), [([], "fox"), (["fox"], ""), ([""], "fox")])
def test_nothing_to_match_scores_nothing(texts: list[str], query: str) -> None:
    match = match_texts(texts, query)
    assert match.score.tolist() == match.coverage.tolist() == [0.0] * len(texts)


def test_words_that_stand_together_as_asked_count_more() -> None:
    match = match_texts(["card payment late", "payment late card", "gift card, no payment"], "card payment")
    assert match.score[0] > match.score[1]
    assert match.coverage[0] == pytest.approx(match.coverage[1])


def test_pairs_weigh_what_they_are_meant_to() -> None:
    together, apart = match_texts(["red fox", "fox red"], "red fox").score.tolist()
    rarity = np.log1p((2 - 1 + 0.5) / (1 + 0.5))
    assert together - apart == pytest.approx(PAIR * rarity * (K1 + 1) / (1 + K1), rel=1e-5)


def test_pairs_of_hidden_documents_change_nothing() -> None:
    alone = match_texts(["red fox", "blue cow"], "red fox")
    among = match_texts(["red fox", "red fox", "the red fox", "blue cow"], "red fox", rows=[1, 3])
    assert among.score.tolist() == pytest.approx(alone.score.tolist())


def test_a_revised_collection_scores_like_a_new_one() -> None:
    former = LexicalIndex.build([extract_terms(text) for text in ("red fox", "old dog", "blue cow")])
    revised = former.revise(np.array([2, -1, 0]), {1: extract_terms("red fox runs")})
    new = LexicalIndex.build([extract_terms(text) for text in ("blue cow", "red fox runs", "red fox")])
    rows, query = np.arange(3), extract_terms("the red fox runs")
    assert revised.restrict(rows).match(query).score.tolist() == new.restrict(rows).match(query).score.tolist()


NO_ROWS = np.empty(0, np.intp)


def build_pairs(*texts: str) -> WordPairs:
    return WordPairs.empty().revise(NO_ROWS, {number: extract_terms(text) for number, text in enumerate(texts)})


def find_pairs(pairs: WordPairs, query: str) -> list[list[int]]:
    return [documents.tolist() for documents in pairs.find_documents(extract_terms(query))]


def test_each_pair_of_a_query_is_looked_up_in_its_order() -> None:
    assert find_pairs(build_pairs("red fox runs", "fox red", "a red fox"), "red fox runs") == [[0, 2], [0]]


def test_a_pair_counts_once_however_often_it_stands() -> None:
    assert find_pairs(build_pairs("red fox red fox red fox"), "red fox red fox") == [[0], [0]]


def test_the_end_of_one_document_and_the_start_of_the_next_are_no_pair() -> None:
    assert find_pairs(build_pairs("runs red", "fox runs"), "red fox") == [[]]


def test_scripts_without_spaces_have_no_pairs() -> None:
    assert find_pairs(build_pairs("退款政策退款政策"), "退款政策") == []
    assert len(build_pairs("退款政策退款政策").packed) == 0


def test_one_word_and_none_have_no_pairs() -> None:
    assert find_pairs(build_pairs("red fox"), "red") == find_pairs(build_pairs("red fox"), "") == []
    assert find_pairs(WordPairs.empty(), "") == []


def test_documents_move_and_go_with_their_pairs() -> None:
    revised = build_pairs("red fox", "old dog", "red fox").revise(np.array([1, 0, -1]), {2: extract_terms("a red fox")})
    assert find_pairs(revised, "red fox") == [[1, 2]]
    assert find_pairs(revised, "old dog") == [[0]]


def test_the_same_documents_have_the_same_pairs_however_they_came() -> None:
    one_by_one = build_pairs("red fox").revise(np.array([0]), {1: extract_terms("old dog")})
    assert one_by_one.packed.tolist() == build_pairs("red fox", "old dog").packed.tolist()
