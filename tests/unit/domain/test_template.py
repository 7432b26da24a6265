import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.template import Literal, Placeholder, fill_parts, parse_template


def test_a_template_becomes_literals_and_placeholders() -> None:
    assert parse_template("Hi {input}, {vars.first-name}!") == (
        Literal("Hi "),
        Placeholder("input"),
        Literal(", "),
        Placeholder("vars.first-name"),
        Literal("!"),
    )


def test_doubled_braces_are_braces() -> None:
    assert parse_template('{{"a": {content}}}') == (Literal('{"a": '), Placeholder("content"), Literal("}"))
    assert parse_template("{{input}}") == (Literal("{input}"),)


def test_values_are_not_expanded_again() -> None:
    parts = parse_template("{input} {context}")
    assert fill_parts(parts, {"input": "{context} {{", "context": "{input}"}) == "{context} {{ {input}"


def test_a_missing_value_is_named() -> None:
    with pytest.raises(KeyError, match=r"vars\.who"):
        fill_parts(parse_template("{vars.who}"), {})


@pytest.mark.parametrize("text", ["{", "}", "a { b", "a } b", "{input", "{in\nput}", "{{{", "}}}"])
def test_a_single_brace_is_a_fault(text: str) -> None:
    with pytest.raises(ValueError, match="single"):
        parse_template(text)


@pytest.mark.parametrize("text", ["{}", "{inputs}", "{ input }", "{vars}", "{vars.}", "{vars.1}", "{input!r}", "{0}"])
def test_an_unknown_placeholder_is_a_fault(text: str) -> None:
    with pytest.raises(ValueError, match="is not a placeholder; use"):
        parse_template(text)


@given(st.text())
def test_any_text_survives_escaping(text: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert fill_parts(parse_template(escaped), {}) == text
