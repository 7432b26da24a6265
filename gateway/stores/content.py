"""What the rest of the gateway needs to know about nodes from a store, beside their records."""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain.content import Backlink, NodeActivity
from gateway.domain.record import RecordIndex

ACTIVITY_PER_USER = 500  # of each kind; older ones are forgotten
BATCH_INDEXES = 500  # that one call of `index` may bring


class ContentStore(Protocol):
    """The index of links, and what users did with nodes. Every method raises StoreError on failure."""

    async def list_backlinks(self, workspace: str, targets: Sequence[str], limit: int) -> list[Backlink]:
        """The links to any of these names, at most so many, in the order of their sources, each once."""
        ...

    async def index(self, entries: Sequence[RecordIndex]) -> None:
        """Give objects that were written without them their outlines and links.

        One that has another version by now is left alone. The feed does not mention it: nothing has changed.
        """
        ...

    async def note(self, workspace: str, activities: Sequence[NodeActivity]) -> None:
        """Remember these; of a user's views, and of its edits, the ACTIVITY_PER_USER latest stay, each node once."""
        ...

    async def list_recent(self, workspace: str, user: str, since: float, limit: int) -> list[NodeActivity]:
        """What a user did at or after a moment, the latest first, at most so many."""
        ...
