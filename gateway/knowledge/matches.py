"""What a search for entities is given and what it finds."""

from typing import NamedTuple

import msgspec

from gateway.domain.knowledge import Entity


class TypeFilter(NamedTuple):
    """Which types of entities count; names in lower case."""

    include: frozenset[str] | None = None  # None: all
    exclude: frozenset[str] = frozenset()

    def accepts(self, kind: str) -> bool:
        kind = kind.casefold()
        return kind not in self.exclude and (self.include is None or kind in self.include)


class ScoredEntity(msgspec.Struct):
    """An entity that a search found, and how relevant it is."""

    entity: Entity
    score: float  # 0..1


class EntityMatches(msgspec.Struct, frozen=True):
    """What a search found, best first."""

    found: tuple[ScoredEntity, ...] = ()
    total: int = 0  # of the entities that match at all
    visible: int = 0  # of the entities that were looked at
