"""How text and numbers stand in a store, the same on every engine."""

from gateway.errors import StoreError


def encoded(text: str) -> bytes:
    """Any text as bytes; a JSON string may hold lone surrogates, which neither SQLite nor Redis takes as text."""
    return text.encode("utf-8", "surrogatepass")


def decoded(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")


def counted(key: str, value: bytes) -> int:
    """What a counter holds; raises StoreError for a value that is none."""
    try:
        return int(value)
    except ValueError:
        raise StoreError(f"What is kept under {key!r} is no counter.") from None
