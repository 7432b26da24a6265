"""A record: one stored object in one of its versions."""

from typing import NamedTuple

import msgspec

from gateway.domain.content import NodeLink


class RecordKey(NamedTuple):
    """Which object, in words that a person chose."""

    workspace: str
    kind: str  # "contexts", "agents", …, a draft as "draft:contexts"
    alias: str  # unique within workspace and kind; it never changes


class Record(msgspec.Struct, frozen=True):
    """One version of a stored object. Versions count from 1 and go on after a deletion."""

    key: RecordKey
    id: str  # made when the object was; one that was deleted and made anew has another
    version: int
    body: bytes | None  # JSON; None: this version deleted the object
    at: float  # seconds since 1970
    by: str
    action: str  # "create", "update", "delete", "rollback", "publish", "import" …
    whole_bytes: int | None = None  # of the whole body, where `body` is only its outline
    created_by: str | None = None  # who made the object; None: nobody asked, or an earlier release did not note it

    @property
    def size(self) -> int:
        """The bytes of its whole body."""
        return len(self.body or b"") if self.whole_bytes is None else self.whole_bytes


class RecordWrite(msgspec.Struct, frozen=True):
    """One change that is wanted."""

    key: RecordKey
    body: bytes | None  # None: delete
    expected: int | None = None  # the version that it replaces; 0: there is none; None: whatever is there
    id: str | None = None  # for an object that does not exist yet; a new one is made when absent
    changes: bytes = b"[]"  # JSON for the audit: what differs from the former version
    outline: bytes | None = None  # JSON that everybody loads in place of the body; None: the body itself
    links: tuple[NodeLink, ...] = ()  # to other objects of the workspace, for the index of backlinks


class RecordIndex(NamedTuple):
    """The outline and links of a record that was written without them."""

    record: Record
    outline: bytes
    links: tuple[NodeLink, ...]


class Author(msgspec.Struct, frozen=True):
    """Who changes something, and as what it is to be remembered."""

    by: str
    action: str
    key: str | None = None  # the id of the author's key; None: it has none


class AuditEntry(msgspec.Struct, frozen=True):
    """One line of the audit: who did what, when."""

    number: int  # grows with time within a store
    key: RecordKey
    version: int
    at: float
    by: str
    action: str
    changes: bytes
    author_key: str | None = None  # the id of the author's key


class FeedPosition(NamedTuple):
    """A point in a store's history. Another `epoch` means another history: the store was emptied or replaced."""

    epoch: str
    number: int


class RecordBatch(msgspec.Struct, frozen=True):
    """Records as they stood at a point of the history."""

    position: FeedPosition
    records: tuple[Record, ...]
