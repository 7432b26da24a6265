"""The usage that an upstream reports, as a receipt tells it: whatever it is, the receipt can be read and shown."""

from collections.abc import Mapping
from typing import Any

import orjson

from gateway.receipts.prices import read_count
from gateway.receipts.templates import encode_json

MAX_USAGE = 2000  # bytes of what an upstream reports; of more than that, only the usual counts
SHORT_USAGE = 300  # bytes: neither the digits of a number beyond all floats nor too many levels go into fewer
MAX_NESTED = 100  # arrays and objects in it; orjson writes no more than 254 levels, those of a whole list included

# What a usage object counts, in the words of chat completions and of responses.
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens")


def encode_usage(usage: Mapping[str, Any]) -> bytes | None:
    """A usage as the upstream reported it; None if that is too large or cannot be shown."""
    try:
        encoded = encode_json(usage)
    except (ValueError, RecursionError):  # more digits or levels than can be written
        return None
    return encoded if len(encoded) <= SHORT_USAGE or is_shown(encoded) else None


def is_shown(encoded: bytes) -> bool:
    """Whether a usage can be read back and shown among other receipts."""
    if len(encoded) > MAX_USAGE or encoded.count(b"[") + encoded.count(b"{") > MAX_NESTED:
        return False
    try:
        orjson.loads(encoded)
    except orjson.JSONDecodeError:  # a number beyond all floats
        return False
    return True


def select_counts(usage: Mapping[str, Any]) -> dict[str, int]:
    """The usual counts of a usage, as far as they are counts."""
    return {name: count for name in COUNTS if (count := read_count(usage, name))}
