"""What collectors propose."""

from enum import StrEnum

import msgspec

from gateway.domain.resource import Resource


class Level(StrEnum):
    """Where a context was assigned, from broad to narrow."""

    GLOBAL = "global"
    PROFILE = "profile"
    AGENT = "agent"
    PROMPT = "prompt"
    CONTENT = "content"
    SESSION = "session"
    REQUEST = "request"


BREADTH = {level: position for position, level in enumerate(Level)}


class Assignment(msgspec.Struct, frozen=True):
    """One context that applies to a scope, and through what."""

    level: Level
    entity: str  # the alias (or node path) that named it; empty for global
    context: str


class Candidate(msgspec.Struct):
    """What a collector proposes. Nothing has been paid for yet."""

    resource: Resource
    level: Level
    entity: str  # "" if the sources of the selection tell it (`Selection.attribute`)
    via: str  # the collector's name, shown in the receipt
    why: str  # one sentence for a person; "" if the entity is the reason: "assigned to agent editor"
    score: float | None = None
    named: bool = False  # the caller asked for it by id
    mandatory: bool = False  # neither `inject: off` nor `exclude` removes it
    imposed: bool = False  # mandatory, and it applies whatever the caller chooses

    def rate(self, score: float) -> "Candidate":
        """The same with another score; `replace` takes four times as long, and a request rates many."""
        return Candidate(
            self.resource,
            self.level,
            self.entity,
            self.via,
            self.why,
            score,
            self.named,
            self.mandatory,
            self.imposed,
        )
