"""The head of a request as bytes, where what the parser made of it is not enough."""

from collections.abc import Iterable

HeadLines = Iterable[tuple[bytes, bytes]]


def measure_head(url: bytes, headers: HeadLines) -> int:
    """The bytes of a head."""
    # Four bytes per line for the colon, the space and the line end, which the parser removed.
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def write_plain_head(method: bytes, url: bytes, version: str, headers: HeadLines) -> bytes:
    """The head again, without the protocol upgrade that it offers."""
    kept = (name + b": " + value + b"\r\n" for name, value in headers if name != b"upgrade")
    return b"".join((method, b" ", url, b" HTTP/", version.encode(), b"\r\n", *kept, b"\r\n"))
