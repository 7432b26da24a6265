"""Making a text fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.selection.truncate import LOOKED_AT, MARK, truncate
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


CAPITALS = "\n\n".join(
    f"Paragraph {n} begins here. The capital of country {n} is City{n}. It is old." for n in range(60)
)


def test_extraction_finds_what_answers_the_question() -> None:
    found = truncate(CAPITALS, 30, words, "extractive", "What is the capital of country 37?")
    assert "The capital of country 37 is City37." in found
    assert found.endswith(MARK)
    assert words(found) <= 30


def test_extraction_keeps_the_order_of_the_text() -> None:
    found = truncate(CAPITALS, 60, words, "extractive", "Countries 41 and 7?")
    assert found.index("country 7 ") < found.index("country 41 ")


def test_without_a_question_the_sentences_that_say_most_of_the_text_are_kept() -> None:
    text = "Weather was fine. Pumps move water. Old pumps leak water. Nobody sang. Water pumps need oil. Tea was hot."
    assert truncate(text, 10, words, "extractive") == f"Pumps move water. Old pumps leak water. {MARK}"


def test_a_question_that_nothing_answers_changes_nothing() -> None:
    assert truncate(CAPITALS, 30, words, "extractive", "xylophone") == truncate(CAPITALS, 30, words, "extractive")


def test_texts_without_spaces_are_compared_by_pairs_of_characters() -> None:
    text = "猫喜欢睡觉。\n狗喜欢跑步。\n北京是中国的首都。\n" * 3
    assert "北京是中国的首都" in truncate(text, 20, len, "extractive", "中国的首都是哪里？")


def test_extraction_says_where_paragraphs_are_missing() -> None:
    assert truncate(TEXT, 6, words, "extractive", "Which one stands apart?") == f"Three stands apart. {MARK}\n\n{MARK}"


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


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("question", ["", "How long is the warranty?"])
def test_what_is_counted_does_not_grow_with_a_long_text(how: str, question: str) -> None:
    def measure(size: int) -> int:
        counted: list[int] = []

        def count(text: str) -> int:
            counted.append(len(text))
            return words(text)

        truncate("A rule is a rule. " * (size // 18), 500, count, how, question)
        return sum(counted)

    small = measure(2 * LOOKED_AT)
    assert 0 < small < 20 * LOOKED_AT
    assert measure(16 * LOOKED_AT) <= small


def test_what_answers_the_question_is_found_at_the_end_of_a_long_text() -> None:
    text = "A rule is a rule. " * (LOOKED_AT // 6) + "The warranty of a lamp is seven years. " + "So be it. " * 2000
    assert "seven years" in truncate(text, 60, words, "extractive", "How long is the warranty?")
    assert "seven years" not in truncate(text, 60, words, "extractive")
    assert truncate(text, 60, words, "keep_start").startswith("A rule")
    assert truncate(text, 60, words, "keep_end").rstrip().endswith("So be it.")


def test_a_large_budget_gets_a_larger_part() -> None:
    text = "word " * LOOKED_AT
    assert words(truncate(text, LOOKED_AT // 2, words, "keep_start")) == LOOKED_AT // 2
