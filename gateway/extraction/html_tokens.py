"""Splits HTML into tags and text in linear time, whatever the markup is.

Python's own parser looks again at the rest of the page for every tag that does not end, and raises AssertionError for
some markup. On ordinary pages this one gives the same tags and the same text.
"""

import html
import re
from collections.abc import Iterator

import msgspec

RAW_TAGS = frozenset({"script", "style"})  # what they hold is no markup

# Possessive, so that nothing is tried twice.
_NAME = re.compile(r"[a-zA-Z][^\t\n\r\f />\x00]*+")
_GAP = re.compile(r"[\s/]*+")
_ATTRIBUTE = re.compile(r"[^\s/>][^\s/=>]*+")
_EQUALS = re.compile(r"\s*+=++\s*+")
_BARE_VALUE = re.compile(r"[^>\s]*+")
_END_TAG = re.compile(r"</\s*+([a-zA-Z][-.a-zA-Z0-9:_]*+)\s*+>")
_RAW_ENDS = {tag: re.compile(rf"</\s*+{tag}\s*+>", re.IGNORECASE) for tag in RAW_TAGS}
_COMMENT_END = re.compile(r"--\s*+>")
_SECTION = re.compile(r"<!\[(?:(temp|cdata|ignore|include|rcdata)|if|else|endif)\b", re.IGNORECASE)
_SECTION_END = re.compile(r"\]\s*+\]\s*+>")
_CONDITION_END = re.compile(r"\]\s*+>")
_LONG_NUMBER = re.compile(r"&#0*+([0-9]*+);?")
MAX_DIGITS = 7  # of the number of a character


class HtmlText(msgspec.Struct, frozen=True):
    """Text between tags, its character references replaced."""

    text: str


class HtmlStartTag(msgspec.Struct, frozen=True):
    """The beginning of an element, or all of it."""

    name: str
    attributes: dict[str, str]
    closed: bool = False  # `<br/>`


class HtmlEndTag(msgspec.Struct, frozen=True):
    """The end of an element."""

    name: str


HtmlToken = HtmlText | HtmlStartTag | HtmlEndTag


class MarkupError(ValueError):
    """Markup that cannot be read, with a sentence that says why."""


def tokenize_html(markup: str) -> Iterator[HtmlToken]:
    """The tags and texts of a page; comments, declarations and what scripts hold are left out. Raises MarkupError."""
    return _Tokenizer(markup).run()


class _Tokenizer:
    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._last_end = markup.rfind(">")
        self._last_quotes = {quote: markup.rfind(quote) for quote in "\"'"}
        self._trusts_quotes = True  # a `>` in quotes does not end a tag
        self._absent: set[re.Pattern[str]] = set()  # ends that do not occur any more

    def run(self) -> Iterator[HtmlToken]:
        markup, at = self._markup, 0
        while at < len(markup):
            start = markup.find("<", at)
            if start < 0:
                start = len(markup)
            if start > at:
                yield HtmlText(unescape(markup[at:start]))
            if start == len(markup):
                return
            token, at = self._read_tag(start)
            if token is not None:
                yield token
                if isinstance(token, HtmlStartTag) and token.name in RAW_TAGS and not token.closed:
                    at = self._find_raw_end(token.name, at)

    def _read_tag(self, start: int) -> tuple[HtmlToken | None, int]:
        """What a `<` begins, and where it ends."""
        following = self._markup[start + 1 : start + 2]
        if following.isascii() and following.isalpha():
            return self._read_start_tag(start) if start < self._last_end else self._read_broken(start)
        if following in ("/", "!", "?") and following:
            end = self._find_end(start, following)
            if end < 0 and self._markup.startswith("<![", start) and not _SECTION.match(self._markup, start):
                raise MarkupError("it is not HTML: something that begins with <![ does not end")
            if end < 0:
                return self._read_broken(start)
            return (self._read_end_tag(start) if following == "/" else None), end
        return HtmlText("<"), start + 1

    def _read_start_tag(self, start: int) -> tuple[HtmlToken, int]:
        if self._trusts_quotes:
            tag = self._read_attributes(start, len(self._markup))
            if tag is not None:
                return tag
            # A quote is missing somewhere: from here on `>` ends a tag wherever it stands, or each tag might be
            # followed to the end of the page.
            self._trusts_quotes = False
        tag = self._read_attributes(start, self._markup.find(">", start) + 1)
        return tag or self._read_broken(start)

    def _read_attributes(self, start: int, stop: int) -> tuple[HtmlToken, int] | None:
        """The tag and where it ends; None if that is not before `stop`."""
        markup = self._markup
        attributes: dict[str, str] = {}
        name = _NAME.match(markup, start + 1, stop)
        at = name.end() if name else stop
        while at < stop:
            gap = _GAP.match(markup, at, stop)
            closed = gap is not None and markup.endswith("/", at, gap.end())
            at = gap.end() if gap else at
            if name is not None and markup.startswith(">", at, stop):
                return HtmlStartTag(name[0].lower(), attributes, closed), at + 1
            attribute = _ATTRIBUTE.match(markup, at, stop)
            if attribute is None:
                return None
            equals = _EQUALS.match(markup, attribute.end(), stop)
            value, at = self._read_value(equals.end(), stop) if equals else ("", attribute.end())
            attributes[attribute[0].lower()] = value
        return None

    def _read_value(self, at: int, stop: int) -> tuple[str, int]:
        """The value of an attribute, in quotes or not; a quote without a second one is part of it."""
        markup = self._markup
        quote = markup[at : at + 1]
        if at < self._last_quotes.get(quote, -1):
            end = markup.find(quote, at + 1, stop)
            if end >= 0:
                return markup[at + 1 : end], end + 1
        bare = _BARE_VALUE.match(markup, at, stop)
        return (bare[0], bare.end()) if bare else ("", at)

    def _read_end_tag(self, start: int) -> HtmlEndTag | None:
        name = _END_TAG.match(self._markup, start)
        if name is not None:
            return HtmlEndTag(name[1].lower())
        loose = _NAME.match(self._markup, start + 2)
        return HtmlEndTag(loose[0].lower()) if loose else None

    def _find_end(self, start: int, kind: str) -> int:
        """Where an end tag, a comment or a declaration ends; -1 if it does not."""
        if kind == "!":
            if self._markup.startswith("<!--", start):
                return self._search_end(_COMMENT_END, start + 4)
            section = _SECTION.match(self._markup, start)
            if section is not None:
                return self._search_end(_SECTION_END if section[1] else _CONDITION_END, start + 3)
        return self._markup.find(">", start) + 1 if start < self._last_end else -1

    def _search_end(self, pattern: re.Pattern[str], at: int) -> int:
        found = None if pattern in self._absent else pattern.search(self._markup, at)
        if found is None:
            self._absent.add(pattern)
            return -1
        return found.end()

    def _find_raw_end(self, tag: str, at: int) -> int:
        """Where the end tag of a script or style sheet begins; without one, all that follows belongs to it."""
        found = _RAW_ENDS[tag].search(self._markup, at)
        return found.start() if found else len(self._markup)

    def _read_broken(self, start: int) -> tuple[HtmlText, int]:
        """What looks like a tag but never ends is text."""
        end = self._markup.find(">", start) + 1 if start < self._last_end else self._markup.find("<", start + 1)
        end = end if end > 0 else len(self._markup)
        return HtmlText(unescape(self._markup[start:end])), end


def unescape(text: str) -> str:
    """Text with its character references replaced; a number that no character has becomes U+FFFD."""
    if "&#" in text:
        text = _LONG_NUMBER.sub(_check_number, text)
    return html.unescape(text) if "&" in text else text


def _check_number(reference: re.Match[str]) -> str:
    # Python refuses to read a number with thousands of digits.
    return "\ufffd" if len(reference[1]) > MAX_DIGITS else reference[0]
