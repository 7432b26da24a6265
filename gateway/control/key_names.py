"""The names of stored keys in order: a page of the list parses the keys that it shows, not all of them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from gateway.domain.record import Record, RecordKey


class NamedKey(NamedTuple):
    """A stored key, as far as lists have to know it."""

    name: str
    id: str
    record: Record


class KeyNames:
    """Reads the name of a record once, and puts them in order again only when a record has changed."""

    def __init__(self) -> None:
        self._records: tuple[Record, ...] = ()
        self._named: dict[RecordKey, NamedKey] = {}
        self._by_workspace: dict[str, list[NamedKey]] = {}

    def list_sorted(self, records: Iterable[Record], workspace: str) -> Sequence[NamedKey]:
        """The keys of a workspace among the current records, by name and id."""
        current = tuple(records)
        if current != self._records:  # the same objects are not compared any further
            self._update(current)
        return self._by_workspace.get(workspace, ())

    def _update(self, records: tuple[Record, ...]) -> None:
        former, by_workspace = self._named, dict[str, list[NamedKey]]()
        self._named = {}
        for record in records:
            if record.body is None:
                continue
            known = former.get(record.key)
            named = known if known is not None and known.record is record else name_key(record)
            self._named[record.key] = named
            by_workspace.setdefault(record.key.workspace, []).append(named)
        for keys in by_workspace.values():
            keys.sort(key=lambda key: (key.name, key.id))
        self._records, self._by_workspace = records, by_workspace


def name_key(record: Record) -> NamedKey:
    """A record with its key's name, which is its id unless somebody gave it one."""
    data: Any = orjson.loads(record.body or b"null")
    name = data.get("name") if isinstance(data, dict) else None
    return NamedKey(name if isinstance(name, str) else record.key.alias, record.key.alias, record)
