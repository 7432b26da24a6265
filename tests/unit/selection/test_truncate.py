"""Making a text fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.selection.truncate import MARK, truncate
from gateway.tokens import BpeCounter

TEXT = "One is first. Two is second.\n\nThree stands apart. Four follows it.\n\nFive ends."
HOW = ("keep_start", "keep_end", "extractive")


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize("how", HOW)
def test_what_fits_stays_as_it_is(how: str) -> None:
    assert truncate(TEXT, 99, words, how) == TEXT


def test_the_start_is_kept_up_to_a_whole_word() -> None:
    assert truncate("alpha beta gamma delta", 3, words, "keep_start") == f"alpha beta {MARK}"


def test_the_end_is_kept_from_a_whole_word() -> None:
    assert truncate("alpha beta gamma delta", 3, words, "keep_end") == f"{MARK} gamma delta"


def test_extraction_takes_the_first_sentences_of_all_paragraphs_before_the_second_ones() -> None:
    assert (
        truncate(TEXT, 11, words, "extractive") == f"One is first. {MARK}\n\nThree stands apart. {MARK}\n\nFive ends."
    )


def test_extraction_says_where_paragraphs_are_missing() -> None:
    assert truncate(TEXT, 6, words, "extractive") == f"One is first. {MARK}\n\n{MARK}"


def test_a_single_long_sentence_is_kept_from_its_start() -> None:
    assert truncate("alpha beta gamma delta epsilon", 3, words, "extractive") == f"alpha beta {MARK}"


@pytest.mark.parametrize("how", HOW)
def test_no_room_gives_nothing(how: str) -> None:
    assert truncate(TEXT, 0, words, how) == ""


paragraphs = st.lists(st.text(st.sampled_from("ab. !?\nß語"), max_size=40), max_size=6).map("\n\n".join)


@given(text=paragraphs, limit=st.integers(0, 60), how=st.sampled_from(HOW))
def test_the_result_never_takes_more_than_its_limit(text: str, limit: int, how: str) -> None:
    assert words(truncate(text, limit, words, how)) <= limit


COUNTER = BpeCounter()


@given(text=paragraphs, limit=st.integers(0, 60), how=st.sampled_from(HOW))
def test_the_limit_holds_for_real_tokens_too(text: str, limit: int, how: str) -> None:
    def count(part: str) -> int:
        return COUNTER.count(part, "gpt-4o")

    assert count(truncate(text, limit, count, how)) <= limit
