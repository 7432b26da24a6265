"""What installed packages add to the gateway: entry points of one group, each named by what it is."""

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "gateway.plugins"

# What importing somebody else's module may reasonably raise.
PLUGIN_ERRORS = (
    ImportError,
    AttributeError,
    SyntaxError,
    NameError,
    TypeError,
    ValueError,
    LookupError,
    RuntimeError,
    OSError,
)


def list_plugins(prefix: str) -> list[EntryPoint]:
    """The entry points whose names begin so, by name."""
    points = find_entry_points(tuple(sys.path))
    return sorted((one for one in points if one.name.startswith(prefix)), key=lambda one: one.name)


@lru_cache(maxsize=1)  # a start asks three times, and each time a file of every installed package would be read
def find_entry_points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of all packages on a search path, which is that of the process."""
    return tuple(entry_points(group=GROUP))
