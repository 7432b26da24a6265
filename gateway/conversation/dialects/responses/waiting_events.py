"""Events of a stream that wait until somebody knows whether, and under which numbers, the client sees them."""

from operator import attrgetter
from typing import Any

import msgspec

from gateway.errors import UpstreamInvalid

MAX_HELD_EVENTS = 100_000  # of one turn


class WaitingEvent(msgspec.Struct, frozen=True):
    """An event that cannot be shown yet."""

    order: int  # among all that wait
    index: int  # of its item in this turn's output
    top: dict[str, Any]


class WaitingEvents:
    """The events of one turn that wait, by the indexes of their items."""

    __slots__ = ("_count", "_events")

    def __init__(self) -> None:
        self._events: dict[int, list[WaitingEvent]] = {}
        self._count = 0  # so far

    def add(self, index: int, top: dict[str, Any]) -> None:
        """Keep an event; raises UpstreamInvalid if there are too many."""
        self._count += 1
        if self._count > MAX_HELD_EVENTS:
            raise UpstreamInvalid(f"The upstream sent more than {MAX_HELD_EVENTS} events that have to wait.")
        self._events.setdefault(index, []).append(WaitingEvent(self._count, index, top))

    def take(self, index: int) -> list[WaitingEvent]:
        """Those of one item, which wait no longer."""
        return self._events.pop(index, [])

    def list_all(self) -> list[WaitingEvent]:
        """All of them, in the order in which they came."""
        return sorted((one for some in self._events.values() for one in some), key=attrgetter("order"))

    def clear(self) -> None:
        self._events.clear()
