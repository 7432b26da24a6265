"""JSON pointers (RFC 6901): how faults and differences say where they are."""

from collections.abc import Sequence


def pointer(keys: Sequence[str | int]) -> str:
    """The way to a value; the empty pointer is the whole."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)
