"""How text and counters are encoded in a store, the same on every engine."""

from gateway.errors import StoreError


def encode_text(text: str) -> bytes:
    """Any text as bytes; a JSON string may contain lone surrogates, which neither SQLite nor Redis accepts as text."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")


def parse_counter(key: str, value: bytes) -> int:
    """The sum that a counter holds; raises StoreError if the value is not a number."""
    try:
        return int(value)
    except ValueError:
        raise StoreError(f"The value stored under {key!r} is not a counter.") from None
