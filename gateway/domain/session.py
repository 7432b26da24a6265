"""A conversation that a client names: what differs from its agent's context, and the settings that hold for it."""

import msgspec

from gateway.domain.agent import ModelDefaults, Placement, SelectionSettings, ToolPermission

LONGEST_ID = 256  # characters of a session's id, and of the user that it belongs to
MAX_ITEMS = 200  # added or removed by hand
MAX_STICKY = 20  # picks that stay from request to request


class SessionKey(msgspec.Struct, frozen=True, order=True):
    """Which session: the same id under another workspace, key or user is another session."""

    workspace: str
    principal: str  # id of the key, or the principal's name
    user: str  # the user that the key acts for; "": none
    id: str


class SessionSettings(msgspec.Struct, frozen=True):
    """What holds for every request of a session that says nothing itself; None: as the agent has it."""

    inject: bool | None = None
    budget: int | None = None
    selection: SelectionSettings = msgspec.field(default_factory=SelectionSettings)
    placement: Placement | None = None
    max_turns: int | None = None
    retain: bool | None = None  # keep what the model fetched for later requests
    announce: bool | None = None  # tell the model when the content has changed
    defaults: ModelDefaults = msgspec.field(default_factory=ModelDefaults)
    tool_permission: ToolPermission | None = None


class StickyPick(msgspec.Struct, frozen=True):
    """A resource that semantic search picked and that stays, and the user message that it was placed with."""

    id: str
    message: int  # the user messages of the conversation are numbered from 0
    digest: str  # of that message: in another history it has no place
    picked: int  # number of the user message for which the search has picked it last


class Session(msgspec.Struct, frozen=True):
    """The state of a session: only what differs from the current snapshot."""

    added: tuple[str, ...] = ()  # ids of resources, in the order in which they were added
    removed: tuple[str, ...] = ()
    retained: tuple[str, ...] = ()  # what the model fetched, the latest last
    content: str | None = None  # path of the node that the conversation is about
    settings: SessionSettings = msgspec.field(default_factory=SessionSettings)
    sticky: tuple[StickyPick, ...] = ()  # in the order in which they were picked


class SessionRecord(msgspec.Struct, frozen=True):
    """A session as it is stored."""

    key: SessionKey
    version: int
    session: Session
    created: float
    updated: float

    @property
    def tag(self) -> str:
        """Changes with everything that a reader sees; another session of the same name has others."""
        return f"{self.version}-{int(self.created * 1000) % 2**32:08x}"
