"""The fact that a gateway has had a key, kept in its store: from then on nobody is let in without one."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from gateway.domain.record import Author, Record, RecordKey, RecordWrite

KIND = "access"
# It belongs to no workspace, so that no API shows or changes it.
FIRST_KEY = RecordKey("", KIND, "first-key")
CLOSER = Author("gateway", "close")


class KeyRepository(Protocol):
    """Where keys are stored."""

    def list_records(self, kind: str) -> Iterable[Record]:
        """The current records of a kind, of all workspaces."""
        ...

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        """Make all changes or none; raises VersionConflict."""
        ...


def has_had_keys(repository: KeyRepository) -> bool:
    """Whether the store remembers that there was a key."""
    return any(record.key == FIRST_KEY for record in repository.list_records(KIND))


def remember_keys(repository: KeyRepository) -> tuple[RecordWrite, ...]:
    """What a commit of the first key writes too; nothing if that is known already."""
    return () if has_had_keys(repository) else (RecordWrite(FIRST_KEY, b"{}"),)
