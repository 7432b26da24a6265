"""Who refers to an object: what is referred to cannot be deleted."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.policies.files import PolicyEntry

Sections = Mapping[str, Mapping[str, PolicyEntry]]

# Which field of which kinds names objects of a kind.
FIELDS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "contexts": (("profiles", "contexts"), ("agents", "contexts"), ("prompts", "contexts"), ("content", "contexts")),
    "profiles": (("agents", "profile"),),
}


def referrers(sections: Sections, kind: str, alias: str) -> Iterator[str]:
    """Every object that names this one, as `kind/alias`."""
    for other, field in FIELDS.get(kind, ()):
        for entry in sections.get(other, {}).values():
            if alias in _named(entry.data, field):
                yield f"{other}/{entry.alias}"


def _named(data: Any, field: str) -> list[Any]:
    value = data.get(field) if isinstance(data, Mapping) else None
    return value if isinstance(value, list) else [value]
