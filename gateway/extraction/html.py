"""Turns HTML into the text that a reader would see, with its headings, lists and paragraph breaks."""

import re

from gateway.extraction.html_tokens import HtmlEndTag, HtmlStartTag, HtmlText, HtmlToken, tokenize_html, unescape

HIDDEN_TAGS = frozenset(
    {"title", "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "select"}
)
VOID_TAGS = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
BLOCK_TAGS = (
    frozenset({"address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt"})
    | {"fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "main", "nav", "ol", "p", "pre"}
    | {"section", "summary", "table", "ul"}
)
HEADINGS = {f"h{depth}": "#" * depth + " " for depth in range(1, 7)}
LINE_TAGS = frozenset({"br", "tr", "li", "option"})

HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
SPACES = re.compile(r"[ \t\r\n\f]+")
CLEANUPS = (
    (re.compile(r" {2,}"), " "),
    (re.compile(r" ?\n ?"), "\n"),
    (re.compile(r"^-\n+(?=[^-\s])", re.MULTILINE), "- "),  # a paragraph within a list item
    (re.compile(r"\n{3,}"), "\n\n"),
)
PRE_SPACE = "\ue000"  # stands for a space or a line break in <pre> until the rest has been cleaned up
PRE_BREAK = "\ue001"


def html_to_text(markup: str) -> str:
    """The visible text of a page, in linear time; raises MarkupError for what is no HTML."""
    extractor = _TextExtractor()
    for token in tokenize_html(markup.replace(PRE_SPACE, "").replace(PRE_BREAK, "")):
        extractor.take(token)
    text = "".join(extractor.pieces)
    for pattern, replacement in CLEANUPS:
        text = pattern.sub(replacement, text)
    return text.strip().replace(PRE_BREAK, "\n").replace(PRE_SPACE, " ")


class _TextExtractor:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._hidden_tag: str | None = None  # the outermost element that is not shown
        self._depth = 0  # of elements of that name within it
        self._pre = 0

    def take(self, token: HtmlToken) -> None:
        match token:
            case HtmlText():
                self._add_text(token.text)
            case HtmlStartTag():
                self._open(token)
                if token.closed:
                    self._close(token.name)
            case HtmlEndTag():
                self._close(token.name)

    def _open(self, tag: HtmlStartTag) -> None:
        if self._hidden_tag is not None:
            self._depth += tag.name == self._hidden_tag
        elif tag.name not in VOID_TAGS and (tag.name in HIDDEN_TAGS or _is_hidden(tag)):
            self._hidden_tag, self._depth = tag.name, 1
        else:
            self._pre += tag.name == "pre"
            self.pieces.append(_render_opening(tag.name))

    def _close(self, name: str) -> None:
        if self._hidden_tag is not None:
            self._depth -= name == self._hidden_tag
            if self._depth == 0:
                self._hidden_tag = None
            return
        self._pre -= name == "pre" and self._pre > 0
        if name in BLOCK_TAGS or name in HEADINGS:
            self.pieces.append("\n\n")

    def _add_text(self, text: str) -> None:
        if self._hidden_tag is not None:
            return
        if self._pre:
            self.pieces.append(text.replace("\r\n", "\n").replace("\n", PRE_BREAK).replace(" ", PRE_SPACE))
        else:
            self.pieces.append(SPACES.sub(" ", text))


def _is_hidden(tag: HtmlStartTag) -> bool:
    return "hidden" in tag.attributes or bool(HIDDEN_STYLE.search(unescape(tag.attributes.get("style", ""))))


def _render_opening(tag: str) -> str:
    if tag in HEADINGS:
        return "\n\n" + HEADINGS[tag]
    if tag in BLOCK_TAGS:
        return "\n\n"
    if tag in LINE_TAGS:
        return "\n- " if tag == "li" else "\n"
    return " | " if tag in ("td", "th") else ""
