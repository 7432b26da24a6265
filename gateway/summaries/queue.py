"""Which summaries are still to be made, and when each is tried next: within bounds, and without I/O."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from gateway.domain.summary import SummaryOrder

MOST_EACH = 64  # of one workspace
MOST = 256  # of all
LONGEST_DELAY = 3600.0  # seconds between two attempts


class QueuedSummary(msgspec.Struct):
    """A summary that is to be made."""

    key: str
    workspace: str
    order: SummaryOrder  # no more of the text than is sent
    digest: bytes  # of the whole text
    due: float
    failures: int = 0
    running: bool = False


class SummaryQueue:
    """One entry per key. If all of it is taken, the workspace with the most entries makes room for others."""

    def __init__(self, most: int = MOST, each: int = MOST_EACH) -> None:
        self._entries: dict[str, QueuedSummary] = {}
        self._most, self._each = most, each
        self._counts: Counter[str] = Counter()
        self._refused: set[str] = set()  # workspaces that had more than there was room for
        self.shed = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def add(self, entry: QueuedSummary) -> bool:
        """Whether there was room for it."""
        if entry.key in self._entries:
            return True
        own = self._counts[entry.workspace]
        if own >= self._each or (len(self._entries) >= self._most and not self._make_room(own)):
            self._refuse(entry.workspace)
            return False
        self._entries[entry.key] = entry
        self._counts[entry.workspace] += 1
        return True

    def remove(self, entry: QueuedSummary) -> None:
        if self._entries.pop(entry.key, None) is not None:
            self._counts[entry.workspace] -= 1

    def postpone(self, entry: QueuedSummary, due: float) -> None:
        entry.due, entry.running = due, False

    def take_due(self, now: float) -> Iterator[QueuedSummary]:
        """Entries whose time has come; they count as running from now on."""
        for entry in self._entries.values():
            if not entry.running and entry.due <= now:
                entry.running = True
                yield entry

    def restart(self) -> None:
        """Whoever worked on them is gone: nothing runs."""
        for entry in self._entries.values():
            entry.running = False

    def take_refused(self) -> set[str]:
        """The workspaces that may ask again, because there is room now."""
        if len(self._entries) >= self._most:
            return set()
        free = {name for name in self._refused if self._counts[name] < self._each}
        self._refused -= free
        return free

    def find_next(self) -> float | None:
        """When the next entry is due."""
        return min((one.due for one in self._entries.values() if not one.running), default=None)

    def _make_room(self, own: int) -> bool:
        workspace, count = self._counts.most_common(1)[0]
        if count <= own + 1:
            return False
        last = next((one for one in reversed(self._entries.values()) if one.workspace == workspace), None)
        if last is None or last.running:
            return False
        self.remove(last)
        self._refuse(workspace)
        return True

    def _refuse(self, workspace: str) -> None:
        self.shed += 1
        self._refused.add(workspace)


def compute_delay(first: float, failures: int) -> float:
    """Seconds until the next attempt."""
    return float(min(first * 2 ** (failures - 1), LONGEST_DELAY))
