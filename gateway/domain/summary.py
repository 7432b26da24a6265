"""Summaries that stand for texts which do not fit."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

SUMMARIZE = "summarize"  # as a resource or a layer says it
# Rooms differ from scope to scope: a few sizes serve them all, so that a text is summarized a few times at most.
SIZES = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)


class SummaryOrder(NamedTuple):
    """One text in one size."""

    text: str
    tokens: int  # one of SIZES


class SummaryTable(Protocol):
    """The summaries of one workspace."""

    @property
    def most(self) -> int:
        """Tokens of a summary, however much room there is."""
        ...

    def find(self, order: SummaryOrder) -> str | None:
        """A summary that is in memory; called from any thread."""
        ...


class SummarySource(Protocol):
    """Where summaries come from."""

    def open(self, workspace: str) -> SummaryTable:
        """What a workspace has; called on the event loop."""
        ...

    async def load(self, workspace: str, orders: Sequence[SummaryOrder], *, queue: bool) -> Mapping[SummaryOrder, str]:
        """Those that the store has; with `queue`, the others are made later. It never raises and never waits long."""
        ...

    def find_failure(self, workspace: str, text: str) -> str | None:
        """Why the last attempt to summarize a text failed."""
        ...


def choose_size(room: int, most: int) -> int:
    """The largest size that a room has place for; 0: it is too small for any."""
    return max((size for size in SIZES if size <= min(room, most)), default=0)
