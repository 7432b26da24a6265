"""Texts as they stand inside JSON strings: what is encoded once is placed without being decoded again."""

import msgspec
from msgspec import Raw

BLANK_LINE = b"\\n\\n"  # inside a JSON string

_encode = msgspec.json.Encoder().encode


def escape_json(text: str) -> bytes:
    """A text as it is written between the quotes of a JSON string."""
    return _encode(text)[1:-1]


def quote_json(*pieces: bytes) -> Raw:
    """The non-empty pieces as one JSON string, with blank lines between them."""
    return Raw(b'"' + BLANK_LINE.join(filter(None, pieces)) + b'"')
