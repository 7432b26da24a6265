"""Turns HTML into the text that a reader would see, with its headings, lists and paragraph breaks."""

import re
from html.parser import HTMLParser

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

Attributes = list[tuple[str, str | None]]


def html_to_text(markup: str) -> str:
    """The visible text of a page."""
    extractor = _TextExtractor()
    extractor.feed(markup.replace(PRE_SPACE, "").replace(PRE_BREAK, ""))
    extractor.close()
    text = "".join(extractor.pieces)
    for pattern, replacement in CLEANUPS:
        text = pattern.sub(replacement, text)
    return text.strip().replace(PRE_BREAK, "\n").replace(PRE_SPACE, " ")


class _TextExtractor(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._hidden_tag: str | None = None  # the outermost element that is not shown
        self._depth = 0  # of elements of that name within it
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        if self._hidden_tag is not None:
            self._depth += tag == self._hidden_tag
        elif tag not in VOID_TAGS and (tag in HIDDEN_TAGS or _is_hidden(attrs)):
            self._hidden_tag, self._depth = tag, 1
        else:
            self._pre += tag == "pre"
            self.pieces.append(_render_opening(tag))

    def handle_endtag(self, tag: str) -> None:
        if self._hidden_tag is not None:
            self._depth -= tag == self._hidden_tag
            if self._depth == 0:
                self._hidden_tag = None
            return
        self._pre -= tag == "pre" and self._pre > 0
        if tag in BLOCK_TAGS or tag in HEADINGS:
            self.pieces.append("\n\n")

    def handle_data(self, data: str) -> None:
        if self._hidden_tag is not None:
            return
        if self._pre:
            self.pieces.append(data.replace("\r\n", "\n").replace("\n", PRE_BREAK).replace(" ", PRE_SPACE))
        else:
            self.pieces.append(SPACES.sub(" ", data))


def _is_hidden(attrs: Attributes) -> bool:
    attributes = dict(attrs)
    return "hidden" in attributes or bool(HIDDEN_STYLE.search(attributes.get("style") or ""))


def _render_opening(tag: str) -> str:
    if tag in HEADINGS:
        return "\n\n" + HEADINGS[tag]
    if tag in BLOCK_TAGS:
        return "\n\n"
    if tag in LINE_TAGS:
        return "\n- " if tag == "li" else "\n"
    return " | " if tag in ("td", "th") else ""
