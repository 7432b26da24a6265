"""Unicode normal forms in linear time."""

import re
import unicodedata
from typing import Literal

PART = 256  # characters that are normalized at once where a letter bears endless marks

# Marks are neither letters nor spaces; normal text has a few of them in a row.
_MARKS = re.compile(r"[^\w\s\x00-\x7f]{32}")


def normalize_text(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """The text in a normal form; in parts if a letter has endless marks, since sorting those takes quadratic time."""
    if text.isascii():
        return text
    if len(text) <= PART or _MARKS.search(text) is None:
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, text[at : at + PART]) for at in range(0, len(text), PART))
