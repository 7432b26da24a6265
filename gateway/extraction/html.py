"""HTML becomes the text that a reader would see, with headings, lists and paragraph breaks kept."""

import re
from html.parser import HTMLParser

UNSEEN = frozenset({"title", "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "select"})
VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})
BLOCKS = (
    frozenset({"address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt"})
    | {"fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "main", "nav", "ol", "p", "pre"}
    | {"section", "summary", "table", "ul"}
)
HEADINGS = {f"h{depth}": "#" * depth + " " for depth in range(1, 7)}
LINES = frozenset({"br", "tr", "li", "option"})

HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
SPACES = re.compile(r"[ \t\r\n\f]+")
TIDY = (
    (re.compile(r" {2,}"), " "),
    (re.compile(r" ?\n ?"), "\n"),
    (re.compile(r"^-\n+(?=[^-\s])", re.MULTILINE), "- "),  # a paragraph within a list item
    (re.compile(r"\n{3,}"), "\n\n"),
)
PRE = "\ue000"  # stands for a blank or a line break of <pre> until the rest has been tidied
PRE_BREAK = "\ue001"

Attributes = list[tuple[str, str | None]]


def html_to_text(markup: str) -> str:
    """The visible text of a page."""
    reader = _Reader()
    reader.feed(markup.replace(PRE, "").replace(PRE_BREAK, ""))
    reader.close()
    text = "".join(reader.pieces)
    for pattern, tidy in TIDY:
        text = pattern.sub(tidy, text)
    return text.strip().replace(PRE_BREAK, "\n").replace(PRE, " ")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._unseen: str | None = None  # the outermost element that is not shown
        self._depth = 0  # of elements of that name within it
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        if self._unseen is not None:
            self._depth += tag == self._unseen
        elif tag not in VOID and (tag in UNSEEN or _hidden(attrs)):
            self._unseen, self._depth = tag, 1
        else:
            self._pre += tag == "pre"
            self.pieces.append(_opening(tag))

    def handle_endtag(self, tag: str) -> None:
        if self._unseen is not None:
            self._depth -= tag == self._unseen
            if self._depth == 0:
                self._unseen = None
            return
        self._pre -= tag == "pre" and self._pre > 0
        if tag in BLOCKS or tag in HEADINGS:
            self.pieces.append("\n\n")

    def handle_data(self, data: str) -> None:
        if self._unseen is not None:
            return
        if self._pre:
            self.pieces.append(data.replace("\r\n", "\n").replace("\n", PRE_BREAK).replace(" ", PRE))
        else:
            self.pieces.append(SPACES.sub(" ", data))


def _hidden(attrs: Attributes) -> bool:
    given = dict(attrs)
    return "hidden" in given or bool(HIDDEN_STYLE.search(given.get("style") or ""))


def _opening(tag: str) -> str:
    if tag in HEADINGS:
        return "\n\n" + HEADINGS[tag]
    if tag in BLOCKS:
        return "\n\n"
    if tag in LINES:
        return "\n- " if tag == "li" else "\n"
    return " | " if tag in ("td", "th") else ""
