"""Who changes something through the API or the command line, and on which condition."""

from typing import TypeAlias

from gateway.domain.principal import Principal
from gateway.domain.record import Author

Tags: TypeAlias = frozenset[str] | None  # of which an object must have one; "*": any; None: not checked


def make_author(caller: Principal, action: str) -> Author:
    """A caller as the author of a change: names may be given to another key later, ids may not."""
    return Author(caller.name, action, caller.key)
