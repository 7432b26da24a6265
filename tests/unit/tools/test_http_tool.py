"""HTTP tools: what an endpoint may send, and what a model may pass to it."""

import pytest

from gateway.tools.http_tool import decode_body


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "utf-7", "zlib", "no such charset"])
def test_only_charsets_of_texts_count(charset: str) -> None:
    """80 kB take Python's punycode codec five seconds, on the event loop."""
    assert decode_body(b"abc-bbbb \\u0041 +AEE-", charset) == "abc-bbbb \\u0041 +AEE-"


@pytest.mark.parametrize(
    ("charset", "body"), [(None, "für".encode()), ("UTF-8", "für".encode()), ("iso-8859-1", "für".encode("latin-1"))]
)
def test_usual_charsets_are_read(charset: str | None, body: bytes) -> None:
    assert decode_body(body, charset) == "für"
