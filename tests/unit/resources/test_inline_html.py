"""Inline HTML is parsed once per content, however often its entry is compiled."""

import pytest

from gateway.extraction.extract import ExtractionTimeout
from gateway.extraction.html import html_to_text
from gateway.resources import document
from gateway.resources.document import DocumentData, DocumentType


def test_the_same_markup_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(markup: str) -> str:
        parsed.append(markup)
        return html_to_text(markup)

    monkeypatch.setattr(document, "parse_html", parse)
    kind = DocumentType()
    for markup in ("<p>one", "<p>two", "<p>one"):
        data = DocumentData(content=markup, mime_type="text/html")
        assert kind.render(data, None) == markup.removeprefix("<p>")
    assert parsed == ["<p>one", "<p>two"]


def test_a_large_page_is_parsed_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """While this process parsed it, all requests would wait for the interpreter."""
    seen: list[str] = []

    def parse(markup: str) -> str:
        seen.append(markup)
        return "here"

    monkeypatch.setattr(document, "parse_html", parse)
    for size in (document.LARGE - 100, document.LARGE + 100):
        markup = "<p>Käse &amp; Brot</p>" + "<b>x</b>" * (size // 8)
        text = DocumentType().render(DocumentData(content=markup, mime_type="text/html"), None)
        assert text.startswith("here" if size < document.LARGE else "Käse & Brot")
    assert len(seen) == 1


def test_a_page_that_no_process_gets_to_is_parsed_all_the_same_unless_it_is_huge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> str:
        raise ExtractionTimeout("it took longer than 20 seconds to read")

    monkeypatch.setattr(document, "extract_html", fail)
    page = DocumentData(content="<p>Brot" + "<b>x</b>" * (document.LARGE // 8), mime_type="text/html")
    assert DocumentType().render(page, None).startswith("Brot")
    huge = DocumentData(content="<p>Brot" + "<b>x</b>" * (document.PARSED_HERE // 8), mime_type="text/html")
    with pytest.raises(ExtractionTimeout):
        DocumentType().render(huge, None)
