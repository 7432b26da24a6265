"""What a request would like to see, as far as collectors and ranking can tell."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class ContextHints:
    """Wishes about nodes and other found items; none of them brings in what the caller may not read."""

    prioritize_types: tuple[str, ...] = ()
    since: float = -inf  # seconds since 1970; items that were modified before are left out
    until: float = inf
    include: frozenset[str] = frozenset()  # ids that come first
    exclude: frozenset[str] = frozenset()  # ids that are left out
    max_depth: int | None = None  # steps in the tree that collectors go at most


NO_HINTS = ContextHints()
