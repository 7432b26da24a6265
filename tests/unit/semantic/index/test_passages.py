"""Cutting resources into passages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.semantic.index.passages import Passage, compose_text, split_resources, split_text

RESOURCE = Resource(
    id="site/gdpr",
    context="site",
    type="text",
    name="GDPR",
    mode=Mode.SEMANTIC,
    kind=ResourceKind.REFERENCE,
    description="Wording rules for personal data",
    languages=(),
    conflict_key=None,
    priority=100,
    required=False,
    mandatory=False,
    readers=(),
    examples=(),
    truncate="extractive",
    data=None,
    text="Never name a customer.",
)


def test_a_short_resource_is_one_passage_with_its_name_and_description() -> None:
    assert split_resources([RESOURCE]) == [
        Passage("site/gdpr", "GDPR: Wording rules for personal data\n\nNever name a customer.")
    ]


def test_without_a_description_the_name_stands_alone() -> None:
    assert compose_text(replace(RESOURCE, description="")) == "GDPR\n\nNever name a customer."


def test_examples_are_passages_of_their_own() -> None:
    found = split_resources([replace(RESOURCE, examples=("May I name a customer? ", " "))])
    assert found[1:] == [Passage("site/gdpr", "May I name a customer?", example=True)]


@pytest.mark.parametrize(
    ("mode", "count"), [(Mode.SEMANTIC, 1), (Mode.ON_DEMAND, 1), (Mode.ALWAYS, 0), (Mode.MANUAL, 0)]
)
def test_only_what_is_not_placed_anyway_is_indexed(mode: Mode, count: int) -> None:
    assert len(split_resources([replace(RESOURCE, mode=mode)])) == count


def test_what_was_never_fetched_is_not_indexed_and_what_is_empty_is_found_by_its_name() -> None:
    assert split_resources([replace(RESOURCE, text=None)]) == []
    assert [passage.text for passage in split_resources([replace(RESOURCE, text="")])] == [
        "GDPR: Wording rules for personal data"
    ]


def test_neighbouring_paragraphs_share_a_passage_while_they_fit() -> None:
    assert split_text("a" * 20 + "\n\n" + "b" * 20 + "\n \n" + "c" * 20, 45) == ["a" * 20 + "\n\n" + "b" * 20, "c" * 20]


def test_a_long_paragraph_is_broken_between_sentences() -> None:
    text = "One is here. Two is there! Is three? 3.14 stays whole."
    assert split_text(text, 26) == ["One is here. Two is there!", "Is three?", "3.14 stays whole."]


def test_sentences_without_spaces_are_told_apart() -> None:
    assert split_text("今日は。明日は！昨日は？", 8) == ["今日は。", "明日は！", "昨日は？"]


def test_a_long_sentence_is_broken_between_words_and_an_endless_word_anywhere() -> None:
    assert split_text("several words in a row", 10) == ["several", "words in a", "row"]
    assert split_text("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


@given(st.text(alphabet="ab.!? \n。", max_size=300), st.integers(4, 60))
def test_no_piece_is_too_long_and_no_character_is_lost(text: str, size: int) -> None:
    found = split_text(text, size)
    assert all(0 < len(piece) <= size for piece in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_the_key_depends_on_the_model_and_the_text_alone() -> None:
    passage = Passage("a/b", "text")
    assert passage.key("m") == Passage("c/d", "text", example=True).key("m")
    assert len({passage.key("m"), passage.key("n"), Passage("a/b", "Text").key("m")}) == 3
    assert Passage("a/b", "\ud800").key("m")
