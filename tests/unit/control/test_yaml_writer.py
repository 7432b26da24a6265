"""What is written as YAML reads well and comes back exactly."""

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.control.yaml_writer import format_yaml
from gateway.errors import Faults
from gateway.strict_yaml import parse_yaml

AWKWARD = [
    *(
        "no",
        "yes",
        "on",
        "off",
        "null",
        "~",
        "true",
        "True",
        "",
        " ",
        "1e3",
        "1.5",
        "007",
        "2024-01-01",
        "1:30",
        "0x1f",
    ),
    *(
        "- a",
        "a: b",
        "a:",
        "a #b",
        "#",
        "&a",
        "*a",
        "!tag",
        "%x",
        "@x",
        "`x`",
        "|",
        ">",
        "?",
        "? a",
        "'",
        '"',
        "<<",
        "=",
    ),
    *(
        "trailing ",
        " leading",
        "tab\tinside",
        "\ttab",
        "line\nline",
        "\n",
        "\n\n",
        "a\n",
        "a\n\n",
        "\na",
        " a\nb",
        "a\n b",
    ),
    *(
        "a\n \nb",
        "a\n  ",
        "a\n  \n",
        "\n  a\n",
        "a \nb ",
        "\ta\nb",
        "a\r\nb",
        "a\rb",
        "a\x85b\nc",
        "a\u2028b\nc",
        "\ufeff",
    ),
    *(
        "---",
        "...",
        "---\na",
        "a\n---\nb",
        "a\n...\n",
        "😀",
        "😀\nb",
        "\x00",
        "\x1b[0m",
        "\ufffe",
        "\x7f",
        "\xa0",
        "é",
        "[",
        "{",
    ),
    *(
        "a\n#b",
        "key: |\n  text",
        "1_000",
        "190:20:30",
        ".inf",
        ".NaN",
        "-",
        "--",
        "-1",
        "+1",
        "0o7",
        "=",
        "\\",
        "a\\nb",
        "a,b",
    ),
]
TEXTS = st.one_of(st.text(max_size=12), st.sampled_from(AWKWARD), st.text("a \n\t:-#'\"|>", max_size=12))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**18) + 1, 10**18 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


def written_and_read(data: dict[str, Any]) -> Any:
    return parse_yaml(format_yaml(data), "bundle").data


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_text_comes_back_as_value_key_and_item(text: str) -> None:
    data = {"value": text, text: 1, "items": [text, {"deep": [text]}], "nested": {text: {text: text}}}
    assert written_and_read(data) == data


@given(st.dictionaries(TEXTS, DATA, max_size=5))
@example({"a": -0.0, "b": 1e22, "c": 5e-324, "d": 1.0})
def test_whatever_is_written_reads_back_exactly(data: dict[str, Any]) -> None:
    back = written_and_read(data)
    assert back == data
    assert repr(back) == repr(data)  # 1 and 1.0 and true are equal to Python, and not the same


@given(st.dictionaries(TEXTS, st.lists(TEXTS, max_size=3) | TEXTS, max_size=3))
@example({"a": ["Why?", "a: b", "x", "[y]", "{z}"]})
def test_other_readers_of_yaml_see_the_same_text(data: dict[str, Any]) -> None:
    assert (yaml.load(format_yaml(data), Loader=yaml.SafeLoader) or {}) == data


@pytest.mark.parametrize("value", ["text", {"inner": 1}, [1, {"a": 2}], "two\nlines\n", []])
@pytest.mark.parametrize("key", ["k" * 1000, "k" * 1001, "a: " * 400, '"' * 1024, "ä" * 5000])
def test_a_long_key_comes_back(key: str, value: Any) -> None:
    data = {"before": 1, key: value, "after": {key: value}}
    assert parse_yaml(format_yaml(data), "long.yaml").data == data


def test_it_reads_like_a_policy_file() -> None:
    data = {
        "contexts": {
            "legal": {
                "name": "Legal: notes",
                "default": True,
                "resources": {"a": {"type": "text", "data": {"content": "First line.\n\nSecond line."}}},
            }
        },
        "agents": {"editor": {"contexts": ["legal", "seo"], "budget": 3000, "temperature": 0.5, "inject": None}},
        "content": {},
    }
    assert format_yaml(data) == (
        "contexts:\n"
        "  legal:\n"
        '    name: "Legal: notes"\n'
        "    default: true\n"
        "    resources:\n"
        "      a:\n"
        "        type: text\n"
        "        data:\n"
        "          content: |-\n"
        "            First line.\n"
        "\n"
        "            Second line.\n"
        "agents:\n"
        "  editor:\n"
        "    contexts: [legal, seo]\n"
        "    budget: 3000\n"
        "    temperature: 0.5\n"
        "    inject: null\n"
        "content: {}\n"
    )


def test_long_lists_get_a_line_for_each_item() -> None:
    words = [f"word-{number:02}" for number in range(20)]
    assert format_yaml({"a": words}) == "a:\n" + "".join(f"  - {word}\n" for word in words)


@pytest.mark.parametrize("value", [10**18, float("inf"), float("nan"), object(), b"bytes"])
def test_what_yaml_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="YAML"):
        format_yaml({"a": value})


def test_the_reader_notices_a_writer_that_does_not_quote() -> None:
    with pytest.raises(Faults):
        parse_yaml(format_yaml({"a": "*b"}).replace('"', ""), "bundle")
