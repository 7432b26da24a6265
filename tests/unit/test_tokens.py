"""Counting tokens offline."""

import random
from binascii import a2b_base64
from importlib.util import find_spec
from pathlib import Path

import pytest

from gateway.tokens import (
    ENCODINGS,
    REMEMBERED_STRINGS,
    SMALL_PIECE,
    SMALL_TEXT,
    BpeCounter,
    RememberedCounts,
    load_core,
    load_small_encoding,
    read_tokens,
)


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
        ("meta-llama/Llama-3-8b", "llama"),
        ("groq/llama-3.3-70b-versatile", "llama"),
        ("gemini/gemini-2.5-pro", "gemini"),
        ("mistral/open-mixtral-8x22b", "mistral"),
        ("openrouter/qwen/Qwen3-32B", "qwen"),
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


SIGNS = [
    *map(chr, range(32, 127)),
    *"\n\r\t  'sSſdtmréü–“”…中文字日本語かなカナ한국어ßÄİıǅʰ١٢३\u00a0\u2028\u3000\u200b\x1c\x85",
]


@pytest.mark.parametrize("name", ENCODINGS)
def test_small_texts_count_as_tiktoken_counts_them(name: str) -> None:
    small, core, chance = load_small_encoding(name), load_core(name), random.Random(1)
    texts = ["".join(chance.choices(SIGNS, k=chance.randint(1, 40))) for _ in range(2000)]
    # Every sign that Unicode has in its first plane, next to letters, spaces and digits.
    texts += [
        f"a{sign}b {sign} 1{sign}\n{sign}'{sign} " for sign in map(chr, range(1, 0x10000, 13)) if sign.isprintable()
    ]
    assert [text for text in texts if small.count(text) != len(core.encode_ordinary(text))] == []


WORDS = [
    "the",
    "Gateway's",
    "x=1;",
    "I'LL",
    "don't",
    "12345",
    "//",
    "…",
    "[…]",
    "naïve",
    "数据",
    "",
    "\n",
    "\t",
    "a\n",
    "a:\n    b",
    "a.\n  - c\n/d",
    "\x1c",
]


@pytest.mark.parametrize("name", ENCODINGS)
def test_texts_are_the_sum_of_their_words_only_where_tiktoken_splits_them_too(name: str) -> None:
    small, core, chance = load_small_encoding(name), load_core(name), random.Random(2)
    plain = [chr(code) for code in range(128)]
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(3000)]
    texts += ["".join(chance.choices([*plain, *" " * 40, *WORDS], k=chance.randint(1, 14))) for _ in range(10_000)]
    for _ in range(2):  # the second time, every word is known
        assert [text for text in texts if small.count(text) != len(core.encode_ordinary(text))] == []


def test_only_so_many_words_are_remembered() -> None:
    small, core = load_small_encoding("cl100k"), load_core("cl100k")
    for start in range(0, 3 * REMEMBERED_STRINGS, 1000):
        text = " ".join(f"w{number}" for number in range(start, start + 1000)) + " " + "y " * 3 + "z" * 60
        assert small.count(text) == len(core.encode_ordinary(text))
        assert len(small._words) <= REMEMBERED_STRINGS
        assert len(small._pieces) <= REMEMBERED_STRINGS


def test_what_comes_again_is_not_forgotten_with_what_does_not() -> None:
    counted: list[str] = []

    def count(string: str) -> int:
        counted.append(string)
        return len(string)

    remembered = RememberedCounts(count, most=20, longest=5)
    for number in range(100):
        assert remembered.sum(["often", str(number), "too long"]) == 5 + len(str(number)) + 8
        assert len(remembered) + len(remembered._former) <= 20
    assert counted.count("often") == 1
    assert counted.count("too long") == 100


@pytest.mark.parametrize("name", ENCODINGS)
def test_lines_count_as_tiktoken_counts_them(name: str) -> None:
    """Texts are divided after line breaks, unless more white space or a slash follows."""
    small, core, chance = load_small_encoding(name), load_core(name), random.Random(3)
    lines = [
        "",
        " ",
        "  ",
        "\t",
        "a",
        "a b",
        " a",
        "  a: b",
        "\t- a",
        "/a",
        " /",
        "}",
        "a.",
        "]",
        "a ",
        "a  ",
        "数据",
        "\r",
    ]
    texts = ["\n".join(chance.choices(lines, k=chance.randint(1, 8))) for _ in range(6000)]
    assert [text for text in texts if small.count(text) != len(core.encode_ordinary(text))] == []


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_place_of_a_token_in_its_file_is_its_rank(name: str) -> None:
    package = find_spec("litellm")
    assert package is not None
    file = Path(str(package.origin)).parent / "litellm_core_utils" / "tokenizers" / ENCODINGS[name].file
    ranks = {a2b_base64(token): int(rank) for token, rank in map(bytes.split, file.read_bytes().splitlines())}
    assert {token: rank for rank, token in enumerate(read_tokens(ENCODINGS[name]))} == ranks
    assert len(ranks) * 2 < ENCODINGS[name].slots


@pytest.mark.parametrize("text", ["x" * (SMALL_PIECE + 1), "word " * SMALL_TEXT])
def test_what_would_take_long_is_left_to_tiktoken(text: str) -> None:
    counter = BpeCounter()
    counter.count("hello world", "gpt-4o")
    assert not counter._cores
    assert counter.count(text, "gpt-4o") == len(load_core("o200k").encode_ordinary(text))
    assert counter._cores
    assert counter.count("hello world", "gpt-4o") == 2


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4", "claude-3", "llama-3", "gemini-2", "mistral-large", "qwen-max"])
def test_the_name_of_a_family_counts_like_its_models(counter: BpeCounter, model: str) -> None:
    family = counter.family(model)
    assert counter.family(family) == family
    assert counter.count("Hello, wörld 123!", family) == counter.count("Hello, wörld 123!", model)
