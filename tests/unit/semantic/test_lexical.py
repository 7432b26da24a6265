"""Terms of any script, and BM25 that sees only what its caller may see."""

import numpy as np
import pytest

from gateway.semantic.index.lexical import K1, PAIR, B, Lexical, Match, stem, terms


def matched(texts: list[str], query: str, rows: list[int] | None = None) -> Match:
    lexical = Lexical.build([terms(text) for text in texts])
    visible = np.arange(len(texts)) if rows is None else np.array(rows, np.intp)
    return lexical.within(visible).match(terms(query))


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
    assert terms(text) == expected


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
    match = matched(["the invoice", "the card", "the card"], "invoice card")
    assert match.score[0] > match.score[1] == pytest.approx(match.score[2])


def test_scores_are_those_of_bm25() -> None:
    match = matched(["fox fox dog", "dog", "cow"], "fox")
    rarity = np.log1p((3 - 1 + 0.5) / (1 + 0.5))
    damping = K1 * (1 - B + B * 3 / (5 / 3))
    assert match.score[0] == pytest.approx(rarity * 2 * (K1 + 1) / (2 + damping), rel=1e-5)
    assert match.score[1:].tolist() == [0, 0]
    assert match.ceiling == pytest.approx(rarity * (K1 + 1), rel=1e-5)


def test_coverage_is_the_share_of_the_query_that_occurs() -> None:
    match = matched(["alpha beta", "alpha", "gamma"], "alpha beta")
    assert match.coverage[0] == pytest.approx(1)
    assert 0 < match.coverage[1] < 0.5
    assert match.coverage[2] == 0


def test_unknown_words_lower_the_coverage() -> None:
    assert matched(["alpha", "beta"], "alpha zeta").coverage[0] < 0.5


def test_what_is_hidden_changes_nothing() -> None:
    alone = matched(["red fox", "blue cow"], "red cow")
    among = matched(["red red red", "red fox", "cow cow", "blue cow"], "red cow", rows=[1, 3])
    assert among.score.tolist() == pytest.approx(alone.score.tolist())
    assert among.coverage.tolist() == pytest.approx(alone.coverage.tolist())
    assert among.ceiling == pytest.approx(alone.ceiling)


def test_scores_come_in_the_order_of_the_rows() -> None:
    texts = ["cow", "fox", "dog"]
    assert matched(texts, "fox", rows=[2, 1]).score.argmax() == 1
    assert matched(texts, "fox", rows=[1, 2]).score.argmax() == 0


@pytest.mark.parametrize(("texts", "query"), [([], "fox"), (["fox"], ""), ([""], "fox")])
def test_nothing_to_match_scores_nothing(texts: list[str], query: str) -> None:
    match = matched(texts, query)
    assert match.score.tolist() == match.coverage.tolist() == [0.0] * len(texts)


def test_words_that_stand_together_as_asked_count_more() -> None:
    match = matched(["card payment late", "payment late card", "gift card, no payment"], "card payment")
    assert match.score[0] > match.score[1]
    assert match.coverage[0] == pytest.approx(match.coverage[1])


def test_pairs_weigh_what_they_are_meant_to() -> None:
    together, apart = matched(["red fox", "fox red"], "red fox").score.tolist()
    rarity = np.log1p((2 - 1 + 0.5) / (1 + 0.5))
    assert together - apart == pytest.approx(PAIR * rarity * (K1 + 1) / (1 + K1), rel=1e-5)


def test_pairs_of_hidden_documents_change_nothing() -> None:
    alone = matched(["red fox", "blue cow"], "red fox")
    among = matched(["red fox", "red fox", "the red fox", "blue cow"], "red fox", rows=[1, 3])
    assert among.score.tolist() == pytest.approx(alone.score.tolist())


def test_a_revised_collection_scores_like_a_new_one() -> None:
    former = Lexical.build([terms(text) for text in ("red fox", "old dog", "blue cow")])
    revised = former.revised(np.array([2, -1, 0]), {1: terms("red fox runs")})
    new = Lexical.build([terms(text) for text in ("blue cow", "red fox runs", "red fox")])
    rows, query = np.arange(3), terms("the red fox runs")
    assert revised.within(rows).match(query).score.tolist() == new.within(rows).match(query).score.tolist()
