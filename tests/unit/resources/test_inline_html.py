"""Inline HTML is parsed once per content, however often its entry is compiled."""

import pytest

from gateway.resources import document
from gateway.resources.document import DocumentData, DocumentType


def test_the_same_markup_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = document.html_to_text
    monkeypatch.setattr(document, "html_to_text", lambda markup: parsed.append(markup) or parse(markup))
    kind = DocumentType()
    for markup in ("<p>one", "<p>two", "<p>one"):
        data = DocumentData(content=markup, mime_type="text/html")
        assert kind.render(data, None) == markup.removeprefix("<p>")
    assert parsed == ["<p>one", "<p>two"]
