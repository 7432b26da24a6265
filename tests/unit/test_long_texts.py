"""Counting texts that are too long for an encoding to take at once."""

import pytest

from gateway.tokens import LONGEST_PART, BpeCounter, load_core, split_long_text

WORDS = "Some words, 12345 of them.\n\n" * 10_000


@pytest.mark.parametrize("text", ["", "a", WORDS, " " * 3 * LONGEST_PART, "a" * (2 * LONGEST_PART + 1)])
def test_parts_are_short_and_make_up_the_text(text: str) -> None:
    parts = list(split_long_text(text))
    assert "".join(parts) == text
    assert all(len(part) <= LONGEST_PART for part in parts)


def test_the_count_is_that_of_the_whole_text() -> None:
    counter = BpeCounter()
    whole = len(load_core("o200k").encode_ordinary(WORDS))
    assert counter.count(WORDS, "gpt-4o") == whole
