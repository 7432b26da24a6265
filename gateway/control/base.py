"""What the services of the control plane work on."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import orjson

from gateway.domain.record import Author, Record, RecordWrite
from gateway.domain.snapshot import Snapshot
from gateway.errors import Conflict, PreconditionFailed
from gateway.policies.files import PolicyEntry

Tags = frozenset[str] | None  # of which an object must have one; "*": any; None: whatever it has
CLOCKS_APART = 60.0  # seconds that the clocks of two nodes may differ
DRAFTED = "-d"  # ends the tag of an object that has a draft

_TIMED = re.compile(r"[0-9a-f]{19}")


class PolicyRepositoryProtocol(Protocol):
    """The policies of all workspaces."""

    def entries(self, workspace: str) -> Mapping[str, Mapping[str, PolicyEntry]]:
        """Every object of a workspace by kind and alias; those of files have no record."""
        ...

    def stored(self, kind: str) -> Iterable[Record]:
        """The stored objects of a kind in all workspaces."""
        ...

    def trial(self, workspace: str, changes: Mapping[tuple[str, str], Any | None]) -> Snapshot:
        """The snapshot that changes would give, None meaning deleted; raises Faults. Takes CPU: not on the loop."""
        ...

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        """Make all changes or none; they serve on this node before it returns. Raises VersionConflict, StoreError."""
        ...

    async def refresh(self) -> None:
        """Take over what others have changed; raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class Object:
    """One object as a reader finds it."""

    kind: str
    alias: str
    data: Mapping[str, Any]
    record: Record | None  # None: it stands in a file
    file: str | None = None  # "brand.yaml:12"
    draft: bool = False  # whether there is a draft of it

    @property
    def id(self) -> str:
        return self.alias if self.record is None else self.record.id

    @property
    def version(self) -> int:
        return 0 if self.record is None else self.record.version

    @property
    def created(self) -> float | None:
        """When it was made, in seconds since 1970, as far as its id tells: ids begin with the time."""
        if self.record is None or not _TIMED.match(self.record.id):
            return None
        made = int(self.record.id[:13], 16) / 1e6
        return made if made < self.record.at + CLOCKS_APART else None

    @property
    def tag(self) -> str:
        """Changes with everything that a reader sees."""
        body = self.record.body if self.record is not None else orjson.dumps(self.data)
        return f"{self.version}-{sha256(body or b'').hexdigest()[:8]}{DRAFTED if self.draft else ''}"

    def require(self, tags: Tags) -> None:
        """Raise PreconditionFailed unless it has one of the tags; whether there is a draft does not matter to them."""
        if tags is None or "*" in tags or self.tag.removesuffix(DRAFTED) in {t.removesuffix(DRAFTED) for t in tags}:
            return
        raise PreconditionFailed(f"{self.kind}/{self.alias} is at version {self.version} by now. Read it again.")

    def own(self) -> Record:
        """Its record; raises Conflict for an object that stands in a file."""
        if self.record is None:
            raise Conflict(f"{self.kind}/{self.alias} stands in the file {self.file}; change it there.")
        return self.record
