"""The passages of a long text that share most words with a query."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.retrieval.passages import best_passages, shared_words

TEXT = "Lamps glow.\n\nPumps move water uphill.\n\nWater is wet.\n\nStones are hard."


def test_the_nearest_paragraphs_come_in_reading_order() -> None:
    assert best_passages(TEXT, "do pumps move water", 60) == "Pumps move water uphill.\n\nWater is wet."


def test_paragraphs_that_share_nothing_are_left_out() -> None:
    assert best_passages(TEXT, "stones", 1000) == "Stones are hard."


def test_a_query_that_nothing_answers_gives_the_beginning() -> None:
    assert best_passages(TEXT, "quantum", 1000) == "Lamps glow."


def test_short_words_do_not_count() -> None:
    assert shared_words("it is in the box", "is it in a bag of the king") == 1


@given(text=st.text("ab \n", max_size=200), query=st.text("ab ", max_size=20), size=st.integers(1, 60))
def test_the_result_fits(text: str, query: str, size: int) -> None:
    assert len(best_passages(text, query, size)) <= size
