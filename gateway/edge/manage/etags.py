"""Entity tags in headers (RFC 9110 §8.8.3, §13.1). Inside the house a tag is its text without quotes."""

import re

_TAG = re.compile(rb'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*')


def quoted(tag: str) -> bytes:
    """A strong tag as it stands in a header."""
    return b'"' + tag.encode("ascii") + b'"'


def named_tags(header: bytes | None, *, weak: bool) -> frozenset[str] | None:
    """The tags that a condition names, `*` as such; None without the header.

    Weak ones count only where the comparison may be weak. What cannot be read matches nothing: a condition that is
    misspelt must not be taken for none.
    """
    if header is None:
        return None
    if header.strip() == b"*":
        return frozenset({"*"})
    found = (_TAG.fullmatch(part) for part in header.split(b","))
    return frozenset(tag[2].decode("latin-1") for tag in found if tag is not None and (weak or not tag[1]))
