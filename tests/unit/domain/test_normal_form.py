"""Normal forms are those of Unicode, and endless marks take no more time than other text."""

import unicodedata

import pytest

from gateway.domain.normal_form import normalize_text


@pytest.mark.parametrize(
    "text", ["plain", "Café", "ﬁn", "e\u0301" * 900, "漢字" * 300, "가나다" * 200, "— — " * 200, "…" * 20]
)
def test_usual_text_is_normalized_as_a_whole(text: str) -> None:
    assert normalize_text("NFKC", text) == unicodedata.normalize("NFKC", text)
    assert normalize_text("NFD", text) == unicodedata.normalize("NFD", text)


def test_endless_marks_are_normalized_in_parts() -> None:
    endless = "\u0315\u0300" * 5000
    assert sorted(normalize_text("NFC", endless)) == sorted(endless)
    assert normalize_text("NFC", endless) != unicodedata.normalize("NFC", endless)
