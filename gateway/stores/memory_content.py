"""Nodes beside their records in memory: for tests, and for one process that may lose them at a restart."""

from collections.abc import Sequence

from gateway.domain.content import Backlink, NodeActivity
from gateway.domain.record import RecordIndex
from gateway.stores.content import ACTIVITY_PER_USER
from gateway.stores.memory_records import MemoryRecordStore


class MemoryContentStore:
    """A ContentStore for one process; the reference that the other engines are compared with."""

    def __init__(self, records: MemoryRecordStore) -> None:
        self._records = records
        self._known: dict[tuple[str, str, str], dict[str, NodeActivity]] = {}  # workspace, user, kind → by node

    async def list_backlinks(self, workspace: str, targets: Sequence[str], limit: int) -> list[Backlink]:
        found = {link for target in targets for link in self._records.links.get((workspace, target), ())}
        return sorted(found, key=lambda link: (link.source, link.type))[:limit]

    async def index(self, entries: Sequence[RecordIndex]) -> None:
        for entry in entries:
            current = self._records.find_whole(entry.record.key)
            if current is not None and current.version == entry.record.version:
                self._records.outline(entry.record.key, entry.outline, entry.links)

    async def note(self, workspace: str, activities: Sequence[NodeActivity]) -> None:
        for one in activities:
            known = self._known.setdefault((workspace, one.user, one.kind), {})
            former = known.get(one.node)
            if former is None or former.at <= one.at:
                known[one.node] = one
            if len(known) > ACTIVITY_PER_USER:
                del known[min(known.values(), key=_get_age).node]

    async def list_recent(self, workspace: str, user: str, since: float, limit: int) -> list[NodeActivity]:
        own = (known for (place, name, _), known in self._known.items() if (place, name) == (workspace, user))
        recent = [one for known in own for one in known.values() if one.at >= since]
        return sorted(recent, key=_get_age, reverse=True)[:limit]


def _get_age(activity: NodeActivity) -> tuple[float, str, str]:
    """In the order of time; of the same moment, in that of their ids."""
    return activity.at, activity.node, activity.kind
