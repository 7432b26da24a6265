"""One client that leaves: at which phase, when, and what became of it."""

import asyncio
import time
from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """Where a request stands when its client leaves."""

    BODY = "body"  # before the body has ended
    PREPARE = "prepare"  # while the context is searched for
    HEAD = "head"  # while the upstream has not answered
    STREAM = "stream"  # in the middle of a stream
    TOOL = "tool"  # while the gateway runs a tool
    TURN = "turn"  # between two upstream turns
    FINISH = "finish"  # as the last byte arrives


# An upstream works for them when the client leaves, and has to be told.
HAS_UPSTREAM = frozenset({Phase.HEAD, Phase.STREAM, Phase.TURN})
# How many upstream calls there may be in all.
MOST_CALLS = {Phase.BODY: 0, Phase.PREPARE: 0, Phase.TURN: 2}


@dataclass(slots=True, eq=False)
class Case:
    """One request."""

    number: int
    phase: Phase
    streams: bool
    resets: bool  # the client resets its connection instead of closing it
    reached: asyncio.Event = field(default_factory=asyncio.Event)  # the request stands where the client leaves
    closed: asyncio.Event = field(default_factory=asyncio.Event)  # the upstream has noticed
    left_at: float = 0.0
    closed_at: float = 0.0
    calls: int = 0  # of the upstream
    error: str = ""

    @property
    def name(self) -> str:
        return f"case-{self.number}"

    @property
    def delay(self) -> float:
        """Seconds from the client's leaving until the upstream's connection was closed."""
        return self.closed_at - self.left_at

    def note_closed(self) -> None:
        if not self.closed.is_set():
            self.closed_at = time.monotonic()
            self.closed.set()
