"""The exact text placed, and the tools registered."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from gateway.domain.agent import Placement
from gateway.domain.selection import PlacedResource, Selection
from gateway.domain.session import StickyPick


class ClientTools(msgspec.Struct, frozen=True):
    """The client's own tools and how it wants them chosen."""

    tools: tuple[Raw, ...] = ()
    names: frozenset[str] = frozenset()
    choice: Raw | None = None


NO_TOOLS = ClientTools()


class ClientTool(msgspec.Struct, frozen=True):
    """One tool of a client, as far as it can be compared."""

    raw: Raw
    name: str  # "" if it is no function with a name: such a tool always stays
    text: str


class PlacementTarget(msgspec.Struct):
    """Where a body goes, and which adaptations the upstream needs."""

    model: str
    placement: Placement = Placement.SYSTEM
    marks_cache: bool = False  # supports Anthropic's cache marker
    developer: bool = True  # supports the developer role
    defaults: Mapping[str, Any] = msgspec.field(default_factory=dict)  # of the fields that a request may leave out


class OwnTools(msgspec.Struct, frozen=True):
    """Our two tools under the names that are free, and those of servers and endpoints."""

    get: str
    list: str
    schemas: tuple[Raw, ...]  # of all that are registered, as chat completions have them
    called: Mapping[str, PlacedResource] = {}  # those of servers, by the names models use
    fetches: bool = True  # our two are registered
    names: frozenset[str] = frozenset()  # derived from the others

    def __post_init__(self) -> None:
        own = (self.get, self.list) if self.fetches else ()
        force_setattr(self, "names", frozenset((*own, *self.called)))


class AnchoredBlock(msgspec.Struct, frozen=True):
    """A volatile block of an earlier request that stays with the user message that it was placed with."""

    message: int  # the user messages of the conversation are numbered from 0
    text: str
    encoded: bytes  # as the inside of a JSON string


class PlacedTexts(msgspec.Struct, frozen=True):
    """What is placed around the client's own text, as the inside of JSON strings."""

    instructions: bytes = b""
    stable: bytes = b""
    volatile: bytes = b""
    anchored: tuple["AnchoredBlock", ...] = ()

    def __bool__(self) -> bool:
        return bool(self.instructions or self.stable or self.volatile or self.anchored)


class Injection(msgspec.Struct, frozen=True):
    """What one request gets; the same object serves every request of the same scope."""

    selection: Selection
    stable: str = ""
    volatile: str = ""
    tools: OwnTools | None = None
    tokens: int = 0  # blocks and tool schemas
    texts: PlacedTexts = PlacedTexts()  # instructions and blocks, encoded once
    searchable: tuple[str, ...] = ()  # ids of the resources that semantic search may pick from
    sticky: tuple[StickyPick, ...] | None = None  # what the session remembers from now on; None: as before

    @property
    def block(self) -> str:
        """All blocks, as people read them."""
        anchored = (one.text for one in self.texts.anchored)
        return "\n\n".join(block for block in (self.stable, *anchored, self.volatile) if block)

    @property
    def injected(self) -> int:
        """Resources whose text was placed."""
        return len(self.selection.stable) + len(self.selection.volatile)
