"""What a node says: text, properties and links. It is looked up when somebody needs it and is no part of a snapshot."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

LINK = "link"  # the type of a link that names none


class NodeLink(NamedTuple):
    """A link from a node to another one."""

    type: str
    target: str  # id of the node; as written if there is no such node


class Backlink(NamedTuple):
    """A link to a node, seen from there."""

    type: str
    source: str  # id of the node that links


class NodeContent(msgspec.Struct, frozen=True):
    """The text of a node and what else changes without changing the tree."""

    body: str = ""
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)  # plain JSON values
    links: tuple[NodeLink, ...] = ()  # in the order in which they are written
    created_by: str | None = None  # None: nobody knows, as with nodes of policy files
    created_at: float | None = None  # seconds since 1970
    updated_by: str | None = None
    updated_at: float | None = None


NO_CONTENT = NodeContent()


class ActivityKind(StrEnum):
    """What a user did with a node."""

    VIEW = "view"
    EDIT = "edit"


class NodeActivity(msgspec.Struct, frozen=True):
    """What a user did with a node last."""

    node: str  # id
    user: str
    kind: ActivityKind
    at: float  # seconds since 1970


class ContentReader(Protocol):
    """Looks up what nodes say. Ids are those of the workspace's tree; who may read a node is the caller's concern."""

    async def read(self, workspace: str, ids: Sequence[str]) -> Mapping[str, NodeContent]:
        """The contents of these nodes; one that does not exist is absent, as are the last of very large ones.

        Raises StoreError.
        """
        ...

    def count_readable(self, workspace: str, ids: Sequence[str]) -> int:
        """How many of these nodes, from the first on, `read` reads at once."""
        ...

    async def list_backlinks(
        self, workspace: str, id: str, limit: int, readers: frozenset[str] | None = None
    ) -> Sequence[Backlink]:
        """Links to a node, at most so many, in the order of their sources' ids. Raises StoreError.

        With `readers`, only those from nodes that the caller may read: what it may not read takes nobody's place.
        """
        ...

    async def list_activity(self, workspace: str, user: str, since: float, limit: int) -> Sequence[NodeActivity]:
        """What a user did since a moment, the latest first; each node once per kind. Raises StoreError."""
        ...

    def note_view(self, workspace: str, user: str, id: str) -> None:
        """Remember that a user looked at a node. Returns at once; it is stored later, or lost if the store is down."""
        ...
