"""Counting tokens offline."""

import pytest

from gateway.tokens import BpeCounter


@pytest.fixture(scope="module")
def counter() -> BpeCounter:
    return BpeCounter()


@pytest.mark.parametrize(
    ("text", "model", "tokens"),
    [
        ("", "gpt-4o", 0),
        ("hello world", "gpt-4o", 2),
        ("hello world", "gpt-4", 2),
        ("tiktoken is great!", "gpt-4", 6),
        ("antidisestablishmentarianism", "gpt-4", 6),
        ("2 + 2 = 4", "gpt-4o", 7),
        ("お誕生日おめでとう", "gpt-4", 9),
        ("お誕生日おめでとう", "gpt-4o", 8),
        ("<|endoftext|>", "gpt-4o", 7),
    ],
)
def test_counts_are_those_of_openai(counter: BpeCounter, text: str, model: str, tokens: int) -> None:
    assert counter.count(text, model) == tokens


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-4o", "o200k"),
        ("gpt-4o-mini", "o200k"),
        ("gpt-4.1", "o200k"),
        ("gpt-4", "cl100k"),
        ("gpt-4-turbo", "cl100k"),
        ("openai/gpt-3.5-turbo", "cl100k"),
        ("meta-llama/Llama-3-8b", "cl100k"),
        ("claude-sonnet-4", "claude"),
        ("anthropic/Claude-3", "claude"),
        ("anything", "o200k"),
        ("", "o200k"),
    ],
)
def test_models_of_one_family_count_alike(counter: BpeCounter, model: str, family: str) -> None:
    assert counter.family(model) == family


def test_an_estimate_for_claude_leans_high_and_is_whole(counter: BpeCounter) -> None:
    text = "one two three four five six seven eight"
    assert counter.count(text, "gpt-4o") == 8
    assert counter.count(text, "claude-3") == 10
    assert counter.count("hello", "claude-3") == 2
