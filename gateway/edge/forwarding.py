"""Which headers pass the gateway, in either direction; every other one stays here (CONTRACT §5.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Pairs = tuple[tuple[str, str], ...]

UP = {name.encode(): name for name in ("content-type", "accept", "user-agent", "traceparent")}
DOWN = {name: name.encode() for name in ("content-type", "retry-after", "x-request-id")}
DOWN_FAMILIES = ("x-ratelimit-", "openai-")


@dataclass(frozen=True, slots=True)
class Upward:
    """A client's headers as they go up: on the first turn of an exchange and on later ones."""

    first: Pairs
    later: Pairs  # without the Idempotency-Key, which stands for one call only


def upward(headers: Sequence[tuple[bytes, bytes]]) -> Upward:
    """What of a request's headers (names in lower case) goes upstream."""
    later: list[tuple[str, str]] = []
    key: bytes | None = None
    for name, value in headers:
        known = UP.get(name)
        if known is not None:
            later.append((known, _text(value)))
        elif name[:7] == b"openai-":
            later.append((name.decode("ascii"), _text(value)))
        elif name == b"idempotency-key":
            key = value
    shared = tuple(later)
    return Upward(shared if key is None else (*shared, ("idempotency-key", _text(key))), shared)


def downward(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """What of a reply's headers (names in lower case) goes to the client."""
    passed: list[tuple[bytes, bytes]] = []
    for name, value in headers.items():
        known = DOWN.get(name) or (name.encode("ascii") if name.startswith(DOWN_FAMILIES) else None)
        # A control character would make the server fail while it writes the head.
        if known is not None and value.isprintable():
            passed.append((known, value.encode()))
    return passed


def _text(value: bytes) -> str:
    return value.decode("latin-1")  # any byte has a character, so the same bytes go out again
