"""Markup that makes careless parsers raise or run for ever."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.extraction.formats import decode_html, decode_text
from gateway.extraction.html import html_to_text
from gateway.extraction.html_tokens import MarkupError

BITS = [
    "<",
    "a",
    ">",
    "/",
    "</",
    "<!--",
    "-->",
    "<![",
    "CDATA[",
    "]]>",
    "<!",
    "<?",
    "'",
    '"',
    "=",
    " ",
    "&#",
    "9",
    "\0",
]


@given(st.lists(st.sampled_from([*BITS, "<script>", "</script>", "<p hidden>", "é"]), max_size=30).map("".join))
def test_no_markup_makes_the_parser_fail(markup: str) -> None:
    with contextlib.suppress(MarkupError):
        html_to_text(markup)


def test_what_is_no_html_is_refused_with_a_sentence() -> None:
    with pytest.raises(MarkupError, match="does not end"):
        html_to_text("<![<![")


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<![<![>seen", "seen"),
        ("a<b c='>d", "ad"),
        ('a<b c="1>d<b e="2>f', "af"),
        ('a<b c="1><b " d="2><b " e', 'a<b " e'),
        ("&#" + "9" * 5000 + ";", "\ufffd"),
        ("&#0000000000065;", "A"),
        ("cut <b", "cut <b"),
        ("cut <!-- here", "cut <!-- here"),
    ],
)
def test_broken_markup_is_read_as_far_as_it_goes(markup: str, text: str) -> None:
    assert html_to_text(markup) == text


@pytest.mark.parametrize("charset", ["iso-8859-99", "windows-1259", "zip", "\ud800", "utf-16"])
def test_a_charset_that_does_not_exist_is_no_charset(charset: str) -> None:
    assert decode_html(b"ab", charset)
    assert decode_text(b"ab", charset)
